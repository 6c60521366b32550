"""The tables. Times are texts in UTC, `2026-01-31T10:00:00.000000Z`, so that they sort and mean the same everywhere.

A change here needs a migration; a test compares both.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

metadata = MetaData()
# SQLite hands out ids only for INTEGER; PostgreSQL has more than two thousand million rows to number.
_Id = BigInteger().with_variant(Integer, "sqlite")

feeds = Table(
    "feeds",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key_url", Text, nullable=False, unique=True),  # first stored under this; part of keys, never changes
    Column("url", Text, nullable=False),  # where it is fetched
    Column("title", Text, nullable=False, server_default=""),
    Column("format", Text, nullable=False, server_default=""),
    Column("status", Text, nullable=False, server_default="active"),  # active, stopped
    Column("etag", Text, nullable=False, server_default=""),
    Column("last_modified", Text, nullable=False, server_default=""),
    Column("hubs", Text, nullable=False, server_default=""),  # WebSub, one a line
    Column("document", Integer, nullable=False, server_default="0"),  # how many were parsed
    Column("created_at", Text, nullable=False),
    Column("last_checked_at", Text),
    Column("last_parsed_at", Text),
    Column("next_check_at", Text),
    Column("retry_at", Text),  # the server asked to wait until then
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("failure", Text, nullable=False, server_default=""),
    Column("moved_to", Text, nullable=False, server_default=""),
    Column("moved_sightings", Integer, nullable=False, server_default="0"),
    Column("ttl", Integer),  # minutes, as the document says
    Column("folder", Text, nullable=False, server_default=""),  # in the OPML it came from: a/b
    Index("feeds_by_url", "url"),
    Index("feeds_by_next_check", "status", "next_check_at"),
)

feed_aliases = Table(
    "feed_aliases",
    metadata,
    Column("url", Text, primary_key=True),
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False, index=True),
)

entries = Table(
    "entries",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("dedupe_key", Text, nullable=False, index=True),
    Column("guid", Text, nullable=False, server_default=""),
    Column("url", Text, nullable=False, server_default=""),
    Column("canonical_url", Text, nullable=False, server_default="", index=True),
    Column("title", Text, nullable=False, server_default=""),
    Column("published", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False, server_default=""),
    Column("match_confidence", Text, nullable=False),  # high, low
    Column("first_seen_at", Text, nullable=False, index=True),
    Column("last_seen_at", Text, nullable=False),
)

entry_identities = Table(
    "entry_identities",
    metadata,
    Column("key_type", Text, nullable=False),
    Column("key_value", Text, nullable=False),
    Column("entry_id", _Id, ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("policy", Text, nullable=False),
    PrimaryKeyConstraint("key_type", "key_value"),
)

# An item as one feed shows it; `document` is the feed's last one that had it.
sightings = Table(
    "sightings",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
    Column("entry_id", _Id, ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("guid", Text, nullable=False),
    Column("place", Text, nullable=False),  # the canonical URL without scheme and www
    Column("title", Text, nullable=False),
    Column("published", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("document", Integer, nullable=False),
    Column("first_seen_at", Text, nullable=False),
    Column("last_seen_at", Text, nullable=False),
    Column("url", Text, nullable=False, server_default=""),  # the link as the feed has it
    PrimaryKeyConstraint("feed_id", "entry_id"),
    Index("sightings_by_place", "feed_id", "place"),
)

# Guids and places that identify nothing in a feed, because several items carried them.
ambiguous_keys = Table(
    "ambiguous_keys",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
    Column("key_type", Text, nullable=False),
    Column("key_value", Text, nullable=False),
    PrimaryKeyConstraint("feed_id", "key_type", "key_value"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("counts", Text, nullable=False, server_default="{}"),
)

# The policies whose answers the keys of this store are; a newer version takes effect through rekey only.
pinned_policies = Table(
    "pinned_policies",
    metadata,
    Column("purpose", Text, primary_key=True),
    Column("policy", Text, nullable=False),
)

cache = Table(
    "cache",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("expires_at", Text, nullable=False, index=True),
)

rekeys = Table(
    "rekeys",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("from_policy", Text, nullable=False),
    Column("to_policy", Text, nullable=False),
    Column("status", Text, nullable=False),  # running, done, undoing, undone
    Column("position", _Id, nullable=False, server_default=text("0")),  # the last entry that was moved
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
)

# Rows as they were before a rekey, for its undo.
rekeyed_rows = Table(
    "rekeyed_rows",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("rekey_id", _Id, ForeignKey("rekeys.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("entry_id", _Id, nullable=False),
    Column("row", Text, nullable=False),  # JSON
)


users = Table(
    "users",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("is_admin", Integer, nullable=False, server_default="0"),
    Column("created_at", Text, nullable=False),
)

# `owner_id` is a user's, or 0 for the one owner of a store without users.
tokens = Table(
    "tokens",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("created_at", Text, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("expires_at", Text, nullable=False, index=True),
)

bookmarks = Table(
    "bookmarks",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False),
    Column("key", Text, nullable=False),  # a digest of the URL: no index takes a URL of any length
    Column("same_key", Text, nullable=False),  # of the normal form, also where the URL is exact: what looks the same
    Column("url", Text, nullable=False),
    Column("original_url", Text),
    Column("exact_url", Integer, nullable=False, server_default="0"),
    Column("title", Text, nullable=False, server_default=""),
    Column("description", Text, nullable=False, server_default=""),
    Column("tags", Text, nullable=False, server_default="[]"),  # JSON
    Column("folder", Text, nullable=False, server_default=""),
    Column("to_read", Integer, nullable=False, server_default="0"),
    Column("private", Integer, nullable=False, server_default="0"),
    Column("archive_urls", Text, nullable=False, server_default="[]"),  # JSON
    Column("episode_urls", Text, nullable=False, server_default="[]"),  # JSON
    Column("expansion", Text, nullable=False, server_default="none"),  # none, pending, expanded, failed
    Column("expansion_reason", Text, nullable=False, server_default=""),
    Column("policy", Text, nullable=False),
    Column("haystack", Text, nullable=False, server_default=""),  # what search looks at, in lower case
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("deleted_at", Text),
    Index(
        "bookmarks_by_key",
        "owner_id",
        "key",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    ),
    Index(
        "bookmarks_in_trash",
        "deleted_at",
        sqlite_where=text("deleted_at IS NOT NULL"),
        postgresql_where=text("deleted_at IS NOT NULL"),
    ),
    Index("bookmarks_by_same_key", "owner_id", "same_key"),
    Index("bookmarks_by_age", "owner_id", "created_at", "id"),
    Index("bookmarks_by_policy", "policy", "id"),
    Index(
        "bookmarks_pending",
        "id",
        sqlite_where=text("expansion = 'pending'"),
        postgresql_where=text("expansion = 'pending'"),
    ),
)

# What was made one, with the rows as they were, for the undo.
bookmark_merges = Table(
    "bookmark_merges",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False),
    Column("same_key", Text, nullable=False),
    Column("kept_id", _Id, nullable=False),
    Column("rows", Text, nullable=False),  # JSON
    Column("why", Text, nullable=False),  # review, expansion, policy
    Column("created_at", Text, nullable=False),
    Column("undone_at", Text),
    Index("bookmark_merges_by_owner", "owner_id", "same_key"),
)

renormalizations = Table(
    "renormalizations",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("to_policy", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("changed", Integer, nullable=False, server_default="0"),
    Column("merged", Integer, nullable=False, server_default="0"),
    Column("refused", Integer, nullable=False, server_default="0"),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
)

# A file of bookmarks that was handed in, until all of it is kept.
imports = Table(
    "imports",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("format", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),  # empty when it is done
    Column("exact_url", Integer, nullable=False, server_default="0"),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("created", Integer, nullable=False, server_default="0"),
    Column("refused", Text, nullable=False, server_default="[]"),  # JSON
    Column("failure", Text, nullable=False, server_default=""),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
)

# How often something happened in an hour, `2026-01-31T10`; never a URL or a host.
statistics = Table(
    "statistics",
    metadata,
    Column("hour", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("hour", "name"),
)

crawls = Table(
    "crawls",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("seed", Text, nullable=False),  # normalized
    Column("host", Text, nullable=False),  # whose pages are crawled
    Column("options", Text, nullable=False, server_default="{}"),  # JSON
    Column("state", Text, nullable=False, server_default="running"),  # running, done, failed, stopped
    Column("failure", Text, nullable=False, server_default=""),
    Column("address", Text, nullable=False, server_default=""),  # where the start page came from
    Column("taken", Integer, nullable=False, server_default="0"),  # pages that were begun, for the limit
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("failure_kind", Text, nullable=False, server_default=""),  # start_moved, engine
    Column("moved_to", Text, nullable=False, server_default=""),  # where the start page redirects, on another host
    Index("crawls_by_seed", "seed", "id"),
)

crawl_pages = Table(
    "crawl_pages",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),  # a digest of the URL without scheme: no index takes a URL of any length
    Column("url", Text, nullable=False),
    Column("requested_url", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("referrer", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False, server_default="queued"),  # queued, fetching, done, failed, skipped
    Column("attempts", Integer, nullable=False, server_default="0"),  # that came to nothing
    Column("begun_at", Text),
    Column("retry_at", Text),
    Column("lease", Text, nullable=False, server_default=""),  # who fetches it
    Column("lease_until", Text),
    Column("status", Integer, nullable=False, server_default="0"),
    Column("final_url", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False, server_default=""),
    Column("engine", Text, nullable=False, server_default=""),
    Column("error", Text, nullable=False, server_default=""),
    Column("links", Text, nullable=False, server_default="[]"),  # JSON
    Column("followed", Integer, nullable=False, server_default="0"),  # links to pages of the site
    Column("finished_at", Text),
    Column("failure", Text, nullable=False, server_default=""),  # a FailureKind; error is its text
    Column("skip_reason", Text, nullable=False, server_default=""),
    Index("crawl_pages_by_key", "crawl_id", "key", unique=True),
    Index("crawl_pages_by_state", "crawl_id", "state", "depth", "id"),
    Index("crawl_pages_in_order", "crawl_id", "id"),
)


def stamp(when: datetime) -> str:
    """A time as the tables have it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
