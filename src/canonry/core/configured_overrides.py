"""The overrides that policies use by name: the one setting of every surface (contract N5).

The core reads no file: the package has the function that finds the configured one (overrides_setting.py), and a store
passes the overrides that its keys were made under (store/pinned_policies.py).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.overrides import Overrides

# The policies that use the setting where they are named without a version.
TAKES_OVERRIDES = frozenset({"article"})
# The variable and the settings file that can name the overrides file, and its default place. The C core checks these
# itself (`_fast.c`), because usually nothing is configured.
OVERRIDES_VARIABLE = "CANONRY_OVERRIDES"
SETTINGS_FILE = "canonry.toml"
DEFAULT_OVERRIDES = "config/url_normalization_overrides.v0.json"
DIGEST_DIGITS = 8  # of each digest in the id of a policy

_remembered: dict[str, Overrides] = {}


def find_configured_overrides() -> Overrides | None:
    """Return the configured overrides, or None if there are none; PolicyError if their file is malformed."""
    from canonry import find_overrides

    return find_overrides()


def remember_overrides(overrides: Overrides) -> None:
    """Keep overrides for policy ids that end with their digest, whatever is configured."""
    _remembered[overrides.digest[:DIGEST_DIGITS]] = overrides


def get_remembered_overrides(digest: str) -> Overrides | None:
    """Return the overrides that were remembered under the first digits of their digest."""
    return _remembered.get(digest)
