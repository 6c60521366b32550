"""The tables. Times are UTC texts, `2026-01-31T10:00:00.000000Z`, so that they sort the same in both databases.

A change here needs a migration; a test compares both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    event,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ExecutableDDLElement

metadata = MetaData()
# SQLite generates ids only for INTEGER columns; on PostgreSQL, INTEGER would end at two billion rows.
_Id = BigInteger().with_variant(Integer, "sqlite")

feeds = Table(
    "feeds",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key_url", Text, nullable=False, unique=True),  # the first URL; part of keys, never changes
    Column("url", Text, nullable=False),  # the URL that is fetched
    Column("title", Text, nullable=False, server_default=""),
    Column("format", Text, nullable=False, server_default=""),
    Column("status", Text, nullable=False, server_default="active"),  # active, stopped, paused
    Column("etag", Text, nullable=False, server_default=""),
    Column("last_modified", Text, nullable=False, server_default=""),
    Column("hubs", Text, nullable=False, server_default=""),  # WebSub, one a line
    Column("document", Integer, nullable=False, server_default="0"),  # number of documents parsed so far
    Column("created_at", Text, nullable=False),
    Column("last_checked_at", Text),
    Column("last_parsed_at", Text),
    Column("next_check_at", Text),
    Column("retry_at", Text),  # from Retry-After
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("failure", Text, nullable=False, server_default=""),
    Column("moved_to", Text, nullable=False, server_default=""),
    Column("moved_sightings", Integer, nullable=False, server_default="0"),
    Column("ttl", Integer),  # minutes, from the document
    Column("folder", Text, nullable=False, server_default=""),  # from OPML: a/b
    # Documents in a row in which nearly all known items had changed; a number that goes up and down by one.
    Column("changed_documents", Integer, nullable=False, server_default="0"),
    Column("note", Text, nullable=False, server_default=""),  # a FeedNote
    Column("own_title", Text, nullable=False, server_default=""),  # given by a person; `title` is the document's
    Column("site_url", Text, nullable=False, server_default=""),  # from OPML: htmlUrl
    Column("interval_seconds", Integer),
    Column("timeout_seconds", Integer),
    Column("max_bytes", Integer),
    Column("user_agent", Text, nullable=False, server_default=""),
    Column("headers", Text, nullable=False, server_default="{}"),  # JSON; may hold secrets
    Column("origin", Text, nullable=False, server_default=""),  # who named url: person, server:ADDRESS, or unknown
    Column("topic", Text, nullable=False, server_default=""),  # the URL under which its hubs know the feed
    Column("hubs_origin", Text, nullable=False, server_default=""),  # who named the hubs, as in origin
    Column("failure_kind", Text, nullable=False, server_default=""),  # a FailureKind
    Column("failure_status", Integer),  # the status code of a failed poll, if the server answered
    Index("feeds_by_url", "url"),
    Index("feeds_by_next_check", "status", "next_check_at"),
)

feed_aliases = Table(
    "feed_aliases",
    metadata,
    Column("url", Text, primary_key=True),
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False, index=True),
)

# Feeds that were removed lately, and their rows in all tables, to restore them.
removed_feeds = Table(
    "removed_feeds",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("title", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("rows", Text, nullable=False),  # JSON; may hold secrets, as the headers of a feed do
    Column("removed_at", Text, nullable=False, index=True),
)

entries = Table(
    "entries",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("dedupe_key", Text, nullable=False, index=True),
    Column("guid", Text, nullable=False, server_default=""),
    Column("url", Text, nullable=False, server_default=""),
    Column("canonical_url", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False, server_default=""),
    Column("published", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False, server_default=""),
    Column("match_confidence", Text, nullable=False),  # high, low
    Column("first_seen_at", Text, nullable=False, index=True),
    Column("last_seen_at", Text, nullable=False),
    Column("place", Text, nullable=False, server_default="", index=True),  # the canonical URL as links are compared
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

# An item as one feed shows it; `document` is the number of the feed's last document that contained it.
sightings = Table(
    "sightings",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
    Column("entry_id", _Id, ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("guid", Text, nullable=False),
    Column("place", Text, nullable=False),  # the canonical URL as links are compared
    Column("title", Text, nullable=False),
    Column("published", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("document", Integer, nullable=False),
    Column("first_seen_at", Text, nullable=False),
    Column("last_seen_at", Text, nullable=False),
    Column("url", Text, nullable=False, server_default=""),  # the link as given in the feed
    Column("stable_hash", Text, nullable=False, server_default=""),  # only in feeds that change on every request
    PrimaryKeyConstraint("feed_id", "entry_id"),
    Index("sightings_by_place", "feed_id", "place"),
    Index("sightings_by_age", "feed_id", "first_seen_at"),
)

# Items whose link was read, and the other URL that is proven to show its page, empty if there is none.
item_links = Table(
    "item_links",
    metadata,
    Column("entry_id", _Id, ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),  # read, failed, pending
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("retry_at", Text),
    Column("page_url", Text, nullable=False, server_default=""),
    Column("page_place", Text, nullable=False, server_default=""),  # `page_url` as links are compared
    Column("evidence", Text, nullable=False, server_default=""),  # redirect, declared
    Column("read_at", Text, nullable=False),
    Index("item_links_by_place", "page_place"),
)

# What a user did with an item, where that differs from `read_marks`: items up to the mark are read, later ones unread.
item_states = Table(
    "item_states",
    metadata,
    Column("owner_id", _Id, nullable=False),
    Column("entry_id", _Id, ForeignKey("entries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("is_read", Integer, nullable=False),
    Column("is_saved", Integer, nullable=False, server_default="0"),
    Column("bookmark_id", _Id),  # the bookmark that saving the item made
    PrimaryKeyConstraint("owner_id", "entry_id"),
    Index(
        "item_states_saved",
        "owner_id",
        "entry_id",
        sqlite_where=text("is_saved = 1"),
        postgresql_where=text("is_saved = 1"),
    ),
)

# Items with ids up to `read_through` are read; `unread_before` is what the last "mark all read" changed, for its undo.
read_marks = Table(
    "read_marks",
    metadata,
    Column("owner_id", _Id, primary_key=True, autoincrement=False),
    Column("read_through", _Id, nullable=False, server_default=text("0")),
    Column("unread_before", Text, nullable=False, server_default="[]"),  # JSON: ids of entries
)

# Guids and URLs that identify nothing in a feed, because several items of one document carried them.
ambiguous_keys = Table(
    "ambiguous_keys",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
    Column("key_type", Text, nullable=False),
    Column("key_value", Text, nullable=False),
    PrimaryKeyConstraint("feed_id", "key_type", "key_value"),
)

# What is left of an item that retention has deleted: digests of its keys, and the beginning of its content hash.
tombstones = Table(
    "tombstones",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("deleted_at", Text, nullable=False),
    PrimaryKeyConstraint("feed_id", "digest"),
)

# New and updated items, numbered in the order of their commits; see feeds/changes.py.
changes = Table(
    "changes",
    metadata,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("entry_id", _Id, nullable=False),  # the entry may be deleted before the change
    Column("feed_id", _Id, nullable=False),  # the feed whose document made the change; it may be removed
    Column("outcome", Text, nullable=False),  # new, updated
    Column("changed_at", Text, nullable=False),
    Column("record", Text, nullable=False),  # JSON: the item as it was, metadata only
)

# One row: the number of the last change, and that of the last change deleted by retention. Numbers are not reused.
change_numbers = Table(
    "change_numbers",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last", _Id, nullable=False, server_default=text("0")),
    Column("deleted", _Id, nullable=False, server_default=text("0")),
    Column("store_id", Text, nullable=False),  # random; tells positions of different stores apart
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="active"),  # active, paused
    Column("position", _Id, nullable=False),  # the number of the last change that was delivered
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("failure", Text, nullable=False, server_default=""),
    Column("failure_kind", Text, nullable=False, server_default=""),  # a FailureKind
    Column("failing_since", Text),
    Column("retry_at", Text),
    Column("delivered_at", Text),
    Column("created_at", Text, nullable=False),
)

websub_subscriptions = Table(
    "websub_subscriptions",
    metadata,
    Column("feed_id", _Id, ForeignKey("feeds.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("hub", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("callback", Text, nullable=False, unique=True),
    Column("secret", Text, nullable=False),
    Column("state", Text, nullable=False),  # a SubscriptionState
    Column("is_requested", Integer, nullable=False),  # 1 while the hub has to confirm a request
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("failure", Text, nullable=False, server_default=""),
    Column("next_at", Text, nullable=False),  # when to ask the hub again
    Column("expires_at", Text),
    Column("pushed_at", Text),
    Column("missed_at", Text),
    Column("named_hubs", Text, nullable=False),  # hubs and topic of the feed when the hub was asked
    Column("named_topic", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("counts", Text, nullable=False, server_default="{}"),
)

# The policies that made the keys of this store; a newer version takes effect only through a rekey.
pinned_policies = Table(
    "pinned_policies",
    metadata,
    Column("purpose", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("announced", Text, nullable=False, server_default=""),  # the newer version that the user was told about
)

# The overrides that keys of this store were made under, so that the file may change or be deleted.
overrides_texts = Table(
    "overrides_texts",
    metadata,
    Column("digest", Text, primary_key=True),  # sha256 of the text; ids of policies end with its first 8 digits
    Column("text", Text, nullable=False),  # JSON
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
    Column("status", Text, nullable=False),  # running, done, undoing, undone, forgotten
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
    Column("password", Text, nullable=False, server_default=""),  # salt and hash; empty: sign in with a token only
)

# `owner_id` is the id of a user, or 0 for the only owner of a store without users.
tokens = Table(
    "tokens",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("created_at", Text, nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("last_used_at", Text),  # about: it is not written for every request
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("expires_at", Text, nullable=False, index=True),
    Column("created_at", Text, nullable=False, server_default=""),
    Column("last_used_at", Text),
    Column("user_agent", Text, nullable=False, server_default=""),
)

bookmarks = Table(
    "bookmarks",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False),
    Column("key", Text, nullable=False),  # a digest of the URL, because indexes limit the length
    Column("same_key", Text, nullable=False),  # digest of the normalized URL, also for exact URLs; equal for duplicates
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
    Column("haystack", Text, nullable=False, server_default=""),  # the words that search finds, see bookmark_words
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("deleted_at", Text),
    Column("page_state", Text, nullable=False, server_default="none"),  # none, pending, read, failed
    Column("page_attempts", Integer, nullable=False, server_default="0"),  # requests for the page that failed
    Column("page_retry_at", Text),  # the page is not requested again before this time
    Column("site", Text, nullable=False, server_default=""),  # the host without `www.`
    Column("sort_title", Text, nullable=False, server_default=""),  # the title without case and accents
    Index("bookmarks_by_change", "owner_id", "updated_at", "id"),
    Index("bookmarks_by_title", "owner_id", "sort_title", "id"),
    Index("bookmarks_by_site", "owner_id", "site", "id"),
    Index(
        "bookmarks_with_unread_page",
        "id",
        sqlite_where=text("page_state = 'pending'"),
        postgresql_where=text("page_state = 'pending'"),
    ),
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

# The full-text index of bookmarks. On SQLite a virtual table, which triggers keep up to date in the transaction that
# changes a bookmark; on PostgreSQL a generated column with an index. The column is stored: a scan, which the planner
# prefers where many bookmarks match, would make the words of every row again. `haystack` has only words and blanks, so
# both have the same words.
_WORDS_STATEMENTS = {
    "sqlite": (
        (
            "CREATE VIRTUAL TABLE bookmark_words USING"
            " fts5(haystack, content='bookmarks', content_rowid='id', tokenize='ascii', prefix='2 3', columnsize=0)"
        ),
        (
            "CREATE TRIGGER bookmark_words_insert AFTER INSERT ON bookmarks BEGIN"
            " INSERT INTO bookmark_words (rowid, haystack) VALUES (new.id, new.haystack); END"
        ),
        (
            "CREATE TRIGGER bookmark_words_delete AFTER DELETE ON bookmarks BEGIN"
            " INSERT INTO bookmark_words (bookmark_words, rowid, haystack) VALUES ('delete', old.id, old.haystack); END"
        ),
        (
            "CREATE TRIGGER bookmark_words_update AFTER UPDATE OF haystack ON bookmarks"
            " WHEN old.haystack <> new.haystack BEGIN"
            " INSERT INTO bookmark_words (bookmark_words, rowid, haystack) VALUES ('delete', old.id, old.haystack);"
            " INSERT INTO bookmark_words (rowid, haystack) VALUES (new.id, new.haystack); END"
        ),
    ),
    "postgresql": (
        (
            "ALTER TABLE bookmarks ADD COLUMN words tsvector"
            " GENERATED ALWAYS AS (array_to_tsvector(string_to_array(btrim(haystack), ' '))) STORED"
        ),
        "CREATE INDEX bookmark_words ON bookmarks USING gin (words)",
    ),
}


def _make_ddl(statement: str, dialect: str) -> ExecutableDDLElement:
    """Return a statement that only this database runs."""
    make: Callable[[str], ExecutableDDLElement] = DDL  # SQLAlchemy's constructor has no types
    return make(statement.replace("%", "%%")).execute_if(dialect=dialect)


for _dialect, _statements in _WORDS_STATEMENTS.items():
    for _statement in _statements:
        event.listen(bookmarks, "after_create", _make_ddl(_statement, _dialect))
event.listen(bookmarks, "before_drop", _make_ddl("DROP TABLE IF EXISTS bookmark_words", "sqlite"))

# What somebody changed in many bookmarks at once, for the undo.
bookmark_edits = Table(
    "bookmark_edits",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("action", Text, nullable=False),
    Column("rows", Text, nullable=False),  # JSON: id, and the changed columns before and after
    Column("created_at", Text, nullable=False, index=True),
    Column("undone_at", Text),
)

# The icons of sites; an empty `content` is a site that has none.
favicons = Table(
    "favicons",
    metadata,
    Column("site", Text, primary_key=True),
    Column("media_type", Text, nullable=False, server_default=""),
    Column("content", LargeBinary, nullable=False),
    Column("fetched_at", Text, nullable=False),
)

# Merged bookmarks, with the rows as they were, for the undo.
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

# Rekeys of bookmarks; the table has kept its first name.
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
    Column("from_policy", Text, nullable=False, server_default=""),
    Column("undo_started_at", Text),
    Column("undone_at", Text),
)

# What a rekey changed in a bookmark, or the merge it made, for the undo.
rekeyed_bookmarks = Table(
    "rekeyed_bookmarks",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("rekey_id", _Id, ForeignKey("renormalizations.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("bookmark_id", _Id, nullable=False),
    Column("merge_id", _Id),
    Column("row", Text, nullable=False),  # JSON: the columns as they were
)

# An uploaded bookmark file, stored until every row is imported.
imports = Table(
    "imports",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("owner_id", _Id, nullable=False, index=True),
    Column("format", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),  # emptied when the import is done
    Column("exact_url", Integer, nullable=False, server_default="0"),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False, server_default="0"),
    Column("created", Integer, nullable=False, server_default="0"),
    Column("refused", Text, nullable=False, server_default="[]"),  # JSON
    Column("failure", Text, nullable=False, server_default=""),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
)

# What an import did with each row of its file; deleted some weeks after the import.
import_rows = Table(
    "import_rows",
    metadata,
    Column("import_id", _Id, primary_key=True, autoincrement=False),
    Column("row", Integer, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),  # as the file has it
    Column("outcome", Text, nullable=False),
    Column("bookmark_id", _Id),
    Column("reason", Text, nullable=False, server_default=""),
)

# Counts of events by hour, `2026-01-31T10`; names never contain a URL or a host.
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
    Column("host", Text, nullable=False),  # the host whose pages are crawled
    Column("options", Text, nullable=False, server_default="{}"),  # JSON
    Column("state", Text, nullable=False, server_default="running"),  # running, done, failed, stopped, paused
    Column("failure", Text, nullable=False, server_default=""),
    Column("address", Text, nullable=False, server_default=""),  # IP address of the start page
    Column("taken", Integer, nullable=False, server_default="0"),  # number of pages started, for the page limit
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("failure_kind", Text, nullable=False, server_default=""),  # start_moved, engine, no_answer
    Column("moved_to", Text, nullable=False, server_default=""),  # where the start page redirects, on another host
    Column("down_since", Text),  # when the site stopped answering, while it does not answer
    Column("paused_until", Text),  # no page is opened before this time
    Column("previous_id", _Id),  # the crawl with which this one is compared; it may have been removed
    Column("is_previous_queued", Integer, nullable=False, server_default="0"),  # pages that only that crawl had found
    Column("sitemaps_lease", Text, nullable=False, server_default=""),  # who reads the sitemaps
    Column("sitemaps_until", Text),  # until when, '' if nobody does; null if there is nothing to read
    Column("sitemap_failures", Text, nullable=False, server_default="[]"),  # JSON: URL, reason, is_transient
    Index("crawls_by_seed", "seed", "id"),
)

crawl_pages = Table(
    "crawl_pages",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),  # a digest of the URL without its scheme, because indexes limit the length
    Column("url", Text, nullable=False),
    Column("requested_url", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("referrer", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False, server_default="queued"),  # queued, fetching, done, failed, skipped
    Column("attempts", Integer, nullable=False, server_default="0"),  # failed attempts
    Column("begun_at", Text),
    Column("retry_at", Text),
    Column("lease", Text, nullable=False, server_default=""),  # owner of the lease
    Column("lease_until", Text),
    Column("status", Integer, nullable=False, server_default="0"),
    Column("final_url", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False, server_default=""),
    Column("engine", Text, nullable=False, server_default=""),
    Column("error", Text, nullable=False, server_default=""),
    Column("links", Text, nullable=False, server_default="[]"),  # JSON
    Column("followed", Integer, nullable=False, server_default="0"),  # number of links to pages of the site
    Column("finished_at", Text),
    Column("failure", Text, nullable=False, server_default=""),  # a FailureKind; error is its text
    Column("skip_reason", Text, nullable=False, server_default=""),
    Column("origin", Text, nullable=False, server_default=""),  # who named requested_url, as in feeds
    Column("is_last_retry", Integer, nullable=False, server_default="0"),  # a retry that waits for the end of the crawl
    Column("spellings", Text, nullable=False, server_default="[]"),  # JSON: other URLs as found of this page
    Column("link_origin", Text, nullable=False, server_default=""),  # who named the links: the server of the page
    Column("facts", Text, nullable=False, server_default="{}"),  # JSON: content type, size, text hash, validators, …
    Column("change", Text, nullable=False, server_default=""),  # new, changed, gone or same since the previous crawl
    Column("repeats_url", Text, nullable=False, server_default=""),  # the page with the same path, title and text
    Column("text_hash", Text, nullable=False, server_default=""),  # of the visible text, as in evidence/fingerprint.py
    Column("simhash", Text, nullable=False, server_default=""),  # 16 hexadecimal digits
    Column("words", Integer, nullable=False, server_default="0"),
    Column("group_key", Text, nullable=False, server_default=""),  # the key without what looks like a session id
    Column("skipped_by", Text, nullable=False, server_default=""),  # the key of the rule that skipped the page
    Column("learned_key", Text, nullable=False, server_default=""),  # of a page to read, under the learned rules
    Index("crawl_pages_by_key", "crawl_id", "key", unique=True),
    Index("crawl_pages_by_state", "crawl_id", "state", "depth", "id"),
    Index("crawl_pages_in_order", "crawl_id", "id"),
)
Index(
    "crawl_pages_by_group",
    crawl_pages.c.crawl_id,
    crawl_pages.c.group_key,
    sqlite_where=text("group_key <> ''"),
    postgresql_where=text("group_key <> ''"),
)
Index(
    "crawl_pages_by_learned_key",
    crawl_pages.c.crawl_id,
    crawl_pages.c.learned_key,
    sqlite_where=text("learned_key <> ''"),
    postgresql_where=text("learned_key <> ''"),
)

crawl_rules = Table(  # what a crawl has learned about the URLs of its site
    "crawl_rules",
    metadata,
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),  # a digest of kind and pattern
    Column("kind", Text, nullable=False),  # CrawlRuleKind
    Column("pattern", Text, nullable=False),
    Column("is_active", Integer, nullable=False, server_default="0"),  # pages are skipped because of it
    Column("state", Text, nullable=False),  # JSON: what was counted
)

crawl_texts = Table(  # the texts that pages of a crawl have shown, as their patterns compare them
    "crawl_texts",
    metadata,
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", Text, primary_key=True),
)

learned_rules = Table(
    "learned_rules",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("host", Text, nullable=False),
    Column("kind", Text, nullable=False),  # a RuleKind
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("support", Integer, nullable=False),  # distinct contents
    Column("against", Integer, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("examples", Text, nullable=False),  # JSON: pairs of URLs
    Column("counter_examples", Text, nullable=False, server_default="[]"),  # JSON
    Column("overrides", Text, nullable=False),  # JSON: what the rule adds to an overrides file
    Column("state", Text, nullable=False, server_default="proposed"),  # proposed, accepted, refused
    Column("rekey_id", _Id),  # the rekey of bookmarks that accepting it started
    Column("policy", Text, nullable=False, server_default=""),  # the policy that it made
    Column("created_at", Text, nullable=False),
    Column("decided_at", Text),
    Index("learned_rules_by_name", "host", "name", unique=True),
)

crawl_folds = Table(  # the first page of a crawl with a path, title and text
    "crawl_folds",
    metadata,
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("url", Text, nullable=False),
)

crawl_controls = Table(  # what further requests for pages of a crawl showed
    "crawl_controls",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("crawl_id", _Id, ForeignKey("crawls.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),  # repeat, variant
    Column("page_url", Text, nullable=False),  # the page as it was requested
    Column("url", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("text_hash", Text, nullable=False),
    Column("simhash", Text, nullable=False),  # 16 hexadecimal digits
    Column("words", Integer, nullable=False),
    Column("fetched_at", Text, nullable=False),
    Index("crawl_controls_by_crawl", "crawl_id"),
)

# What a URL, without its fragment, showed when it was last fetched; for all owners, crawls and feeds.
page_facts = Table(
    "page_facts",
    metadata,
    Column("url_key", Text, primary_key=True),  # a digest of the URL, because indexes limit the length
    Column("url", Text, nullable=False),
    Column("form_key", Text, nullable=False),  # equal for URLs that differ only in form: scheme, www., slash
    Column("permanent_url", Text, nullable=False, server_default=""),  # where permanent redirects ended, if elsewhere
    Column("canonical_url", Text, nullable=False, server_default=""),  # as declared
    Column("canonical_key", Text, nullable=False, server_default=""),
    Column("status", Integer, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("text_hash", Text, nullable=False),
    Column("simhash", Text, nullable=False),  # 16 hexadecimal digits
    Column("words", Integer, nullable=False),
    Column("body_hash", Text, nullable=False),
    Column("fetched_at", Text, nullable=False),
    Column("etag", Text, nullable=False, server_default=""),  # the validators of the response
    Column("last_modified", Text, nullable=False, server_default=""),
    Column("control", Text, nullable=False, server_default="none"),  # what a made-up URL beside the page showed
    Index("page_facts_by_form", "form_key"),
    Index("page_facts_by_canonical", "canonical_key"),
    Index("page_facts_by_text", "text_hash"),
)

# URLs that are proven to show the same page.
page_aliases = Table(
    "page_aliases",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("url_key", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("target_key", Text, nullable=False),
    Column("target_url", Text, nullable=False),
    Column("evidence", Text, nullable=False),  # redirect, declared, same_text, similar_text, same_bytes
    Column("found_at", Text, nullable=False),
    Index("page_aliases_by_url", "url_key", "target_key", unique=True),
    Index("page_aliases_by_target", "target_key"),
)

# Pairs of URLs that a person says are not the same, whatever the evidence; first_key < second_key.
refused_aliases = Table(
    "refused_aliases",
    metadata,
    Column("owner_id", _Id, nullable=False),
    Column("first_key", Text, nullable=False),
    Column("second_key", Text, nullable=False),
    Column("first_url", Text, nullable=False),
    Column("second_url", Text, nullable=False),
    Column("refused_at", Text, nullable=False),
    PrimaryKeyConstraint("owner_id", "first_key", "second_key"),
)

# An id is never given twice, also after its row is deleted: merges, journals, queued jobs and clients remember ids.
# PostgreSQL's sequences ensure that; SQLite does it only for AUTOINCREMENT columns.
for _table in metadata.tables.values():
    if _table.autoincrement_column is not None:
        _table.dialect_options["sqlite"]["autoincrement"] = True


def stamp(when: datetime) -> str:
    """Return a time in the text format of the tables."""
    # Not strftime, which writes years before 1000 with fewer than four digits on some systems.
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
