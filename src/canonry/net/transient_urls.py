"""Recognise URLs that a server makes for one request or one visitor: signed URLs and URLs with a session id.

Such a URL stops working, so it never stands for a feed, even if a permanent redirect leads to it (contract F3).
"""

from __future__ import annotations

import re

from canonry.core.rules import get_param_name
from canonry.core.url import parse

# `;jsessionid=…` of Java servers; others use the same form with their own name.
_SESSION_IN_PATH = re.compile(r";(?:j|php)?sess(?:ion)?_?id=|/\([A-Za-z]\([0-9a-z]{20,}\)\)/", re.IGNORECASE)
_SESSION_PARAMS = frozenset({"jsessionid", "phpsessid", "sessionid", "session_id", "asp.net_sessionid", "cftoken"})
# Signatures of storage services and content networks that say by themselves what they are.
_SIGNATURE_PARAMS = frozenset(
    {"x-amz-signature", "x-goog-signature", "x-oss-signature", "x-cos-signature", "hdnea", "hdnts", "__token__"}
)
# A signature of another name counts if the URL also says when it ends.
_PROOF_PARAMS = frozenset({"signature", "sig", "token", "hash", "md5", "hmac", "policy", "key-pair-id"})
_END_PARAMS = frozenset({"expires", "expire", "expiry", "exp", "se", "x-amz-expires"})


def is_transient(url: str) -> bool:
    """Whether a URL was made for one request or one visitor: `/feed;jsessionid=1A2B`, `/feed?Signature=…&Expires=…`."""
    parts = parse(url)
    names = {get_param_name(param).lower() for param in (parts.query or "").split("&")}
    return bool(
        _SESSION_IN_PATH.search(parts.path)
        or names & (_SESSION_PARAMS | _SIGNATURE_PARAMS)
        or (names & _PROOF_PARAMS and names & _END_PARAMS)
    )
