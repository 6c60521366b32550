"""Recognise URLs of login forms, consent walls and error pages: sites show one for many URLs that they do not show.

Such a page never stands for another one, even if a permanent redirect leads to it or every page declares it.
"""

from __future__ import annotations

import re

from canonry.core.url import parse

_PATH = re.compile(
    r"/(?:(?:wp-|service-?)?log[-_]?(?:in|on|out)|sign[-_]?(?:in|up)|sso|auth|authenticate|register|(?:session-?)?expired"
    r"|captcha|challenge|consent|cookie-?wall|errors?|(?:page-?)?not[-_]?found|40[0134]|410|50[023]"
    r"|(?:access-?)?denied|forbidden|unauthorized|unavailable|maintenance)(?:\.[a-z]{2,5})?/*$",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?:login|signin|sso|auth|accounts|consent|captcha)\.")


def is_wall(url: str) -> bool:
    """Whether the host or the last part of the path is that of a login form, a consent wall or an error page."""
    parts = parse(url)
    return _HOST.match(parts.host) is not None or _PATH.search(parts.path) is not None
