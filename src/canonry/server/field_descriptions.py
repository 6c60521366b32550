"""Descriptions of fields that mean the same in every answer of the API, for its OpenAPI description and page."""

from __future__ import annotations

from typing import Any

_DESCRIPTIONS = {
    "archive_urls": "URLs of archived copies of the page.",
    "bookmark_id": "The id of a bookmark.",
    "created_at": "When it was created, in UTC.",
    "deleted_at": "When it was moved to the trash, in UTC; null if it is not in the trash.",
    "description": "A text for people.",
    "episode_urls": "URLs of the episodes that the page is about.",
    "evidence": "What proves that two URLs show the same page.",
    "exact_url": "Whether the URL is saved as it was given, without normalizing it.",
    "expansion": "Whether the URL is a short link, and whether its target is known.",
    "expansion_reason": "Why a short link could not be followed.",
    "failure": "Why it failed, as a sentence; empty if it did not.",
    "failures": "How often it failed in a row.",
    "feed_id": "The id of a feed.",
    "finished_at": "When it ended, in UTC; null while it runs.",
    "first_seen_at": "When it was seen for the first time, in UTC.",
    "folder": "A folder; a slash separates it from the folder that it is in: `reading/python`.",
    "guid": "The id of the item in its feed.",
    "id": "The number of this row.",
    "last_checked_at": "When it was last fetched, in UTC.",
    "last_seen_at": "When it was last seen, in UTC.",
    "next_check_at": "When it is fetched next, in UTC.",
    "original_url": "The URL as it was given, if it differs from `url`; else null.",
    "policy": "The policy that normalized the URL, with its version.",
    "private": "Whether only its owner may see it.",
    "published": "When it was published, as its feed says.",
    "reason": "Why, in a few words.",
    "request_id": "The id of the request in the log of the service.",
    "started_at": "When it began, in UTC.",
    "state": "How far it has got.",
    "status": "The HTTP status, or the state of a feed.",
    "steps": "The rules that changed the URL, in their order.",
    "tags": "Labels; each is kept once.",
    "title": "The title, given by a person or read from the page.",
    "to_read": "Whether it is still to be read.",
    "total": "How many there are in all.",
    "updated_at": "When it was last changed, in UTC.",
    "url": "An http(s) URL; of a bookmark, the normalized one.",
}


def add_field_descriptions(schemas: dict[str, Any]) -> None:
    """Describe the fields of all schemas that have no description of their own."""
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            if name in _DESCRIPTIONS:
                field.setdefault("description", _DESCRIPTIONS[name])
