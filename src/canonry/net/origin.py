"""Who named a URL: only people and servers inside allowed networks may name URLs in them (contract G4, G4b).

Every request takes an origin, and nothing assumes a person: code that does not know who named a URL says UNKNOWN,
which reaches public addresses only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

_SERVER_PREFIX = "server:"


class OriginKind(StrEnum):
    """The kinds of sources that can name a URL."""

    PERSON = "person"
    SERVER = "server"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Origin:
    """The source that named a URL. `server` is its IP address, or its name if a proxy hides the address."""

    kind: OriginKind
    server: str = ""

    PERSON: ClassVar[Origin]
    UNKNOWN: ClassVar[Origin]

    @classmethod
    def from_server(cls, server: str) -> Origin:
        """Return the origin of the URLs that a server names; UNKNOWN if the server is not known."""
        return cls(OriginKind.SERVER, server) if server else cls.UNKNOWN

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Return the origin that `str` made a text of; UNKNOWN for any other text."""
        if text == OriginKind.PERSON:
            return cls.PERSON
        return cls.from_server(text.removeprefix(_SERVER_PREFIX)) if text.startswith(_SERVER_PREFIX) else cls.UNKNOWN

    def __str__(self) -> str:
        """Return the text that the store keeps: `person`, `server:ADDRESS`, or nothing if unknown."""
        if self.kind is OriginKind.PERSON:
            return OriginKind.PERSON
        return f"{_SERVER_PREFIX}{self.server}" if self.server else ""


Origin.PERSON = Origin(OriginKind.PERSON)
Origin.UNKNOWN = Origin(OriginKind.UNKNOWN)
