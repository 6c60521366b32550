"""What the learner found: rules, refused rules, and their sentences (contract L2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RuleKind(StrEnum):
    """The part of a URL that a rule drops or writes in one way."""

    PARAM = "param"
    FOLDER_PARAM = "folder_param"
    DEFAULT_VALUE = "default_value"
    PATH_PARAM = "path_param"
    SEGMENT = "segment"
    GENERATED_SEGMENT = "generated_segment"
    EXTENSION = "extension"
    SLUG = "slug"
    PATH_QUERY = "path_query"
    HOST = "host"
    SCHEME = "scheme"
    SLASH = "slash"
    CASE = "case"
    ORDER = "order"


class RefusalReason(StrEnum):
    """Why a candidate is not a rule."""

    CONTENTS_DIFFER = "contents_differ"
    TOO_FEW = "too_few"
    UNDECIDED = "undecided"
    NOT_CONFIRMED = "not_confirmed"  # by --verify
    VETOED = "vetoed"  # people said that pages which it merges are not the same
    NOT_EXPRESSIBLE = "not_expressible"  # in an overrides file, or not beside other rules of the host


@dataclass(frozen=True, slots=True)
class Pair:
    """Two URLs that show one content (an example of a rule) or two contents (a counter-example)."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class LearnedRule:
    """A rule for one host. `support` and `against` count distinct contents; `overrides` is the rule in overrides.v1."""

    host: str
    kind: RuleKind
    name: str
    text: str
    support: int
    against: int
    confidence: float
    examples: tuple[Pair, ...]
    hosts: tuple[str, ...]
    overrides: tuple[tuple[str, str, Any], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A candidate that is not a rule, with the reason and a counter-example if there is one."""

    host: str
    kind: RuleKind
    name: str
    text: str
    reason: RefusalReason
    support: int
    against: int
    confidence: float
    counter_examples: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of learning."""

    rules: tuple[LearnedRule, ...]
    refused: tuple[RefusedRule, ...]
    rows: int
    invalid: int

    def overrides(self) -> str:
        """Return the rules as the text of an overrides file; its format is `overrides.v1` only if a rule needs that."""
        from canonry.learner.export_rules import make_overrides

        return make_overrides(rule.overrides for rule in self.rules)


_KINDS = {
    "param": RuleKind.PARAM, "folder": RuleKind.FOLDER_PARAM, "value": RuleKind.DEFAULT_VALUE,
    "sem": RuleKind.PATH_PARAM, "seg": RuleKind.SEGMENT, "shape": RuleKind.GENERATED_SEGMENT,
    "ext": RuleKind.EXTENSION, "slug": RuleKind.SLUG, "slug-head": RuleKind.SLUG, "id-end": RuleKind.SLUG,
    "id-start": RuleKind.SLUG, "path-query": RuleKind.PATH_QUERY, "host": RuleKind.HOST, "scheme": RuleKind.SCHEME,
    "slash": RuleKind.SLASH, "case": RuleKind.CASE, "order": RuleKind.ORDER,
}  # fmt: skip
_PLACES = {"first": "at the start of the path", "mid": "inside the path", "last": "at the end of the path"}


def get_kind(feature: str) -> RuleKind:
    """Return the kind of the rule that drops a feature, given by its name."""
    return _KINDS[feature.partition(":")[0]]


def describe(feature: str, host: str) -> str:
    """Return the sentence that explains the rule that drops a feature, given by its name."""
    kind, _, rest = feature.partition(":")
    place, _, text = rest.partition(":")
    folder, _, name = rest.partition("|")
    where = "below" if folder.endswith("/") and folder != "/" else "at"
    sentences = {
        "param": f"On {host} the parameter “{rest}” does not change the page.",
        "folder": f"On {host} {where} {folder} the parameter “{name}” does not change the page.",
        "value": f"On {host} “{rest}” is the default: the page is the same without it.",
        "sem": f"On {host} “;{rest}” in the path does not change the page.",
        "seg": f"On {host} the segment “{text}” {_PLACES.get(place, place)} does not change the page.",
        "shape": f"On {host} a segment like “{text}” {_PLACES.get(place, place)} does not change the page.",
        "ext": f"On {host} the ending “.{rest}” does not change the page.",
        "slug": f"On {host} the text after the id in {rest}/… does not change the page.",
        "slug-head": f"On {host} the text before {rest} does not change the page.",
        "id-end": f"On {host} the text before the id in {rest.rstrip('/')}/…-123 does not change the page.",
        "id-start": f"On {host} the text after the id in {rest.rstrip('/')}/123-… does not change the page.",
        "path-query": f"On {host} {folder}?{name.partition('|')[0]}=X is the same page as {name.partition('|')[2]}X.",
        "host": f"{rest} is the same site as {host}.",
        "scheme": f"On {host} http and https are the same page.",
        "slash": f"On {host} a slash at the end does not change the page.",
        "case": f"On {host} capital letters {_PLACES.get(rest, rest)} do not change the page.",
        "order": f"On {host} the order of parameters does not change the page.",
    }
    return sentences[kind]
