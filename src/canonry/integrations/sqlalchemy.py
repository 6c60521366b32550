"""SQLAlchemy columns for normalized URLs and their hashes.

class Page(Base):
    url: Mapped[str] = mapped_column(CanonicalUrl("bookmark@2"), unique=True)
    url_hash: Mapped[str] = mapped_column(String(64), default=canonical_hash_of("url", "bookmark@2"))

follow_url(Page.url_hash, Page.url, "bookmark@2")    # update the hash when the url of an object changes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import String, event
from sqlalchemy.sql import operators
from sqlalchemy.types import TypeDecorator

import canonry

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Dialect
    from sqlalchemy.engine.default import DefaultExecutionContext
    from sqlalchemy.orm import InstrumentedAttribute
    from sqlalchemy.sql.operators import OperatorType
    from sqlalchemy.types import TypeEngine

_EQUALITY_OPERATORS = {
    operators.eq,
    operators.ne,
    operators.in_op,
    operators.not_in_op,
    operators.is_distinct_from,
    operators.is_not_distinct_from,
}


class CanonicalUrl(TypeDecorator[str]):
    """A text column that normalizes URLs when they are stored and when a query compares them for equality.

    `None` is stored as NULL. A value that is not an http(s) URL raises InvalidUrl inside SQLAlchemy's StatementError.
    Name a version of the policy: the newest version may normalize differently than the stored rows.
    """

    impl = String
    cache_ok = True

    def __init__(self, policy: canonry.Policy | str = "bookmark@1", length: int | None = None) -> None:
        super().__init__(length)
        self.policy = canonry.policy(policy) if isinstance(policy, str) else policy

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the normalized URL."""
        return None if value is None else canonry.normalize(value, self.policy)

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        """Return this type for equality, and plain text for LIKE and others, which compare with parts of a URL."""
        return self if op in _EQUALITY_OPERATORS else self.impl_instance.coerce_compared_value(op, value)

    def __repr__(self) -> str:
        return f"CanonicalUrl({self.policy.id!r})"


def canonical_hash_of(
    column: str, policy: canonry.Policy | str = "article@0"
) -> Callable[[DefaultExecutionContext], str | None]:
    """Return a column default that hashes the URL of another column: `default=canonical_hash_of("url")`.

    The default applies to inserts, with and without the ORM; a URL of None gives None. It does not apply to updates:
    use `follow_url` for objects, and set both columns in your own UPDATE statements.
    """
    chosen = canonry.policy(policy) if isinstance(policy, str) else policy

    def make_default(context: DefaultExecutionContext) -> str | None:
        url = context.get_current_parameters()[column]  # type: ignore[no-untyped-call]
        return None if url is None else canonry.canonical_hash(url, chosen)

    return make_default


def follow_url(
    hash_attribute: InstrumentedAttribute[Any],
    url_attribute: InstrumentedAttribute[Any],
    policy: canonry.Policy | str = "article@0",
) -> None:
    """Set the hash of an object whenever its URL is set: `follow_url(Page.url_hash, Page.url)`."""
    chosen = canonry.policy(policy) if isinstance(policy, str) else policy
    name = hash_attribute.key

    def update_hash(target: object, value: str | None, *_: object) -> None:
        setattr(target, name, None if value is None else canonry.canonical_hash(value, chosen))

    event.listen(url_attribute, "set", update_hash, propagate=True)
