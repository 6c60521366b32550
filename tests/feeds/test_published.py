"""The dates of items: RFC 822, RFC 3339 and the usual mistakes (contract I10)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import hypothesis
import pytest
from hypothesis import strategies as st

from canonry.feeds.published import choose_published, parse_published
from canonry.store.schema import stamp

TEN = "2026-01-31T10:00:00"
CASES = [
    # why                           given                                          wanted, UTC
    ("RFC 822", "Sat, 31 Jan 2026 10:00:00 GMT", TEN),
    ("offset", "Sat, 31 Jan 2026 12:00:00 +0200", TEN),
    ("offset with a colon", "Sat, 31 Jan 2026 12:00:00 +02:00", TEN),
    ("offset of half hours", "Sat, 31 Jan 2026 15:30:00 +0530", TEN),
    ("offset after a name", "Sat, 31 Jan 2026 12:00:00 GMT+0200", TEN),
    ("short offset", "Sat, 31 Jan 2026 12:00:00 UTC+2", TEN),
    ("American zone", "Sat, 31 Jan 2026 05:00:00 EST", TEN),
    ("summer time", "Fri, 31 Jul 2026 05:00:00 PDT", "2026-07-31T12:00:00"),
    ("European zone", "Sat, 31 Jan 2026 11:00:00 CET", TEN),
    ("military letter", "Sat, 31 Jan 2026 10:00:00 Z", TEN),
    ("name of a place", "Fri, 31 Jul 2026 12:00:00 Europe/Berlin", "2026-07-31T10:00:00"),
    ("name of no place", "Sat, 31 Jan 2026 10:00:00 Europe/Nowhere", TEN),
    ("two zones", "Sat, 31 Jan 2026 10:00:00 XXT/XST", TEN),
    ("name of a folder of places", "Sat, 31 Jan 2026 10:00:00 America/Indiana", TEN),
    ("unknown zone", "Sat, 31 Jan 2026 10:00:00 XYZ", TEN),
    ("missing zone", "Sat, 31 Jan 2026 10:00:00", TEN),
    ("missing seconds", "Sat, 31 Jan 2026 10:00 GMT", TEN),
    ("missing weekday", "31 Jan 2026 10:00:00 GMT", TEN),
    ("wrong weekday", "Mon, 31 Jan 2026 10:00:00 GMT", TEN),
    ("foreign weekday", "sam., 31 Jan 2026 10:00:00 GMT", TEN),
    ("no space after the comma", "Sat,31 Jan 2026 10:00:00GMT", TEN),
    ("two-digit year", "31 Jan 26 10:00:00 GMT", TEN),
    ("two-digit year of the last century", "31 Jan 99 10:00:00 GMT", "1999-01-31T10:00:00"),
    ("three-digit year", "31 Jan 126 10:00:00 GMT", TEN),
    ("single digits", "Sun, 1 Feb 2026 9:5:3 GMT", "2026-02-01T09:05:03"),
    ("full month name", "31 January 2026 10:00:00 GMT", TEN),
    ("four letters", "30 Sept 2026 10:00:00 GMT", "2026-09-30T10:00:00"),
    ("German", "31. Januar 2026 10:00", TEN),
    ("French", "3 août 2026", "2026-08-03T00:00:00"),
    ("Spanish", "31 de enero de 2026", "2026-01-31T00:00:00"),
    ("upper case", "SAT, 31 JAN 2026 10:00:00 GMT", TEN),
    ("white space", " Sat,  31 Jan\n2026\t10:00:00  GMT ", TEN),
    ("no time", "Sat, 31 Jan 2026", "2026-01-31T00:00:00"),
    ("comment", "Sat, 31 Jan 2026 10:00:00 +0000 (UTC)", TEN),
    ("trailing junk", "Sat, 31 Jan 2026 10:00:00 +0000 UTC m=+0.1", TEN),
    ("trailing markup", "2026-01-31T10:00:00Z<br/>", TEN),
    ("RFC 850", "Saturday, 31-Jan-26 10:00:00 GMT", TEN),
    ("asctime", "Sat Jan 31 10:00:00 2026", TEN),
    ("Java", "Sat Jan 31 11:00:00 CET 2026", TEN),
    ("JavaScript", "Sat Jan 31 2026 11:00:00 GMT+0100 (CET)", TEN),
    ("American", "January 31st, 2026 10:00 AM", TEN),
    ("afternoon", "Jan 31, 2026 10:00 p.m.", "2026-01-31T22:00:00"),
    ("noon and midnight", "Jan 31, 2026 12:30 AM", "2026-01-31T00:30:00"),
    ("RFC 3339", "2026-01-31T10:00:00Z", TEN),
    ("lower case", "2026-01-31t10:00:00z", TEN),
    ("fraction", "2026-01-31T10:00:00.1234567Z", "2026-01-31T10:00:00.123456"),
    ("fraction with a comma", "2026-01-31T10:00:00,5Z", "2026-01-31T10:00:00.500000"),
    ("RFC 3339 offset", "2026-01-31T05:00:00-05:00", TEN),
    ("offset without a colon", "2026-01-31T12:00:00+0200", TEN),
    ("offset of hours", "2026-01-31T12:00:00+02", TEN),
    ("space instead of T", "2026-01-31 10:00:00", TEN),
    ("RFC 3339 without seconds", "2026-01-31T10:00Z", TEN),
    ("only the hour", "2026-01-31T10Z", TEN),
    ("date only", "2026-01-31", "2026-01-31T00:00:00"),
    ("month only", "2026-01", "2026-01-01T00:00:00"),
    ("year only", "2026", "2026-01-01T00:00:00"),
    ("single digits of ISO 8601", "2026-1-5 9:05", "2026-01-05T09:05:00"),
    ("slashes", "2026/01/31 10:00", TEN),
    ("compact", "20260131T100000Z", TEN),
    ("digits only", "20260131100000", TEN),
    ("end of the day", "2026-01-30T24:00:00Z", "2026-01-31T00:00:00"),
    ("leap second", "2016-12-31T23:59:60Z", "2016-12-31T23:59:59"),
    ("day first", "31.01.2026 10:00", TEN),
    ("day first by its size", "31/01/2026 10:00", TEN),
    ("month first by its size", "01/31/2026 10:00", TEN),
    ("Japanese", "2026年1月31日 10:00", TEN),
    ("seconds since 1970", "1769853600", TEN),
    ("milliseconds since 1970", "1769853600000", TEN),
    ("the first second", "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00"),
]
UNREADABLE = [
    *("", "   ", "yesterday", "soon, 2026", "12:30", "Sat", "31 Foo 2026", "30 Feb 2026", "2026-02-30", "2026-13-01"),
    *("0000-00-00 00:00:00", "2026-01-31T25:00:00Z", "2026-01-31T10:61:00Z", "Sat, 31 Jan 2026 10:00:00 +9900"),
    *("01/02/2026", "2026-W05-6", "2026-031", "Sat, 31 Jan 2026 1000 GMT", "99999999999999999999", "٢٠٢٦-٠١-٣١"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-31 10", "x" * 10_000, "1 " * 10_000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_a_date_is_read(text: str, wanted: str) -> None:
    found = parse_published(text)
    assert found is not None
    assert found.utcoffset() == datetime.now(UTC).utcoffset()
    assert found.replace(tzinfo=None).isoformat() == wanted


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_for_certain_is_none(text: str) -> None:
    assert parse_published(text) is None


times = st.datetimes(datetime(1000, 1, 2), datetime(9998, 12, 30), timezones=st.timezones())


@hypothesis.given(times)
def test_what_the_standard_library_writes_is_read_back(when: datetime) -> None:
    offset = when.utcoffset()
    assert offset is not None
    hypothesis.assume(offset.total_seconds() % 60 == 0)
    assert parse_published(when.isoformat()) == when.astimezone(UTC)
    assert parse_published(format_datetime(when)) == when.astimezone(UTC).replace(microsecond=0)


@hypothesis.given(st.text(max_size=60) | st.from_regex(r"[0-9A-Za-z:,+ /.-]{0,60}"))
def test_any_text_is_a_date_in_utc_or_none(text: str) -> None:
    found = parse_published(text)
    assert found is None or found.tzinfo is UTC


SEEN = "2026-01-31T10:00:00.500000Z"
SHOWN = [
    # why                        published                               shown
    ("certain", "Sat, 31 Jan 2026 10:30:00 +0200", "2026-01-31T08:30:00.000000Z"),
    ("RFC 822 with a zone", "Fri, 30 Jan 2026 10:00:00 EST", "2026-01-30T15:00:00.000000Z"),
    ("none", "", SEEN),
    ("unclear", "yesterday", SEEN),
    ("unclear day", "02/01/2026", SEEN),
    ("announced", "2026-12-24T18:00:00Z", SEEN),
    ("local time read as UTC", "2026-01-31 11:00", SEEN),
    ("no date in C#", "0001-01-01T00:00:00", SEEN),
    ("no date in C", "Thu, 01 Jan 1970 00:00:00 GMT", SEEN),
    ("an old text", "0950-06-01T00:00:00Z", "0950-06-01T00:00:00.000000Z"),
]


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in SHOWN], ids=[row[0] for row in SHOWN])
def test_the_date_that_is_shown_is_never_later_than_the_first_sight(text: str, wanted: str) -> None:
    assert choose_published(text, SEEN) == wanted


def test_times_of_the_store_have_years_of_four_digits() -> None:
    assert stamp(datetime(950, 6, 1, tzinfo=UTC)) == "0950-06-01T00:00:00.000000Z"
