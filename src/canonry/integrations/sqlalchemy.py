"""SQLAlchemy: a column that holds each URL in its one spelling, and one that holds its hash.

class Page(Base):
    url: Mapped[str] = mapped_column(CanonicalUrl("bookmark@1"), unique=True)
    url_hash: Mapped[str] = mapped_column(String(64), default=canonical_hash_of("url", "bookmark@1"))

follow_url(Page.url_hash, Page.url)    # also when an object's url changes
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

_EQUALITY = {
    operators.eq,
    operators.ne,
    operators.in_op,
    operators.not_in_op,
    operators.is_distinct_from,
    operators.is_not_distinct_from,
}


class CanonicalUrl(TypeDecorator[str]):
    """A text that is normalized on its way in: when it is stored, and when a query compares for equality.

    `None` stays; InvalidUrl, inside SQLAlchemy's StatementError, for what is no http(s) URL. Name a version of the
    policy: its newest may give other answers than the rows have.
    """

    impl = String
    cache_ok = True

    def __init__(self, policy: canonry.Policy | str = "bookmark@1", length: int | None = None) -> None:
        super().__init__(length)
        self.policy = canonry.policy(policy) if isinstance(policy, str) else policy

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """The URL as the policy spells it."""
        return None if value is None else canonry.normalize(value, self.policy)

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        """The URL itself where equality is asked; LIKE and the like compare with parts of one."""
        return self if op in _EQUALITY else self.impl_instance.coerce_compared_value(op, value)

    def __repr__(self) -> str:
        return f"CanonicalUrl({self.policy.id!r})"


def canonical_hash_of(
    column: str, policy: canonry.Policy | str = "article@0"
) -> Callable[[DefaultExecutionContext], str | None]:
    """The default of a column that holds the hash of another: `default=canonical_hash_of("url")`.

    For what is inserted, by the ORM or not; None where the URL is None. An UPDATE says nothing of columns it leaves
    alone: use `follow_url` for objects, and set both columns in an UPDATE of your own.
    """
    chosen = canonry.policy(policy) if isinstance(policy, str) else policy

    def default(context: DefaultExecutionContext) -> str | None:
        url = context.get_current_parameters()[column]  # type: ignore[no-untyped-call]
        return None if url is None else canonry.canonical_hash(url, chosen)

    return default


def follow_url(
    hash_attribute: InstrumentedAttribute[Any],
    url_attribute: InstrumentedAttribute[Any],
    policy: canonry.Policy | str = "article@0",
) -> None:
    """Set the hash of an object whenever its URL is set: `follow_url(Page.url_hash, Page.url)`."""
    chosen = canonry.policy(policy) if isinstance(policy, str) else policy
    name = hash_attribute.key

    def changed(target: object, value: str | None, *_: object) -> None:
        setattr(target, name, None if value is None else canonry.canonical_hash(value, chosen))

    event.listen(url_attribute, "set", changed, propagate=True)
