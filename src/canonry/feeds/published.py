"""Read the date of an item: RFC 822, RFC 3339, and the mistakes that feeds make in both (contract I10).

Pure. What cannot be read, or can be read in two ways, is None: no date is better than a wrong one.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MAX_CHARS = 200
_MAX_OFFSET_MINUTES = 24 * 60
_UNSET = ("0001-01-01T", "1970-01-01T00:00:00.000000Z")
_EPOCH_DIGITS = {9: 1, 10: 1, 13: 1000}  # number of digits → units per second

# The beginnings of month names in English, German, French, Spanish, Italian, Portuguese, Dutch; accents removed.
_MONTH_STARTS = (
    "jan ene gen",
    "feb fev",
    "mar maer mrt maa mrz",
    "apr avr abr",
    "may mai mag mei",
    "jun juin giu",
    "jul juil lug",
    "aug aou ago",
    "sep set",
    "oct okt ott out",
    "nov",
    "dec dez dic",
)
_MONTHS = {start: number for number, starts in enumerate(_MONTH_STARTS, start=1) for start in starts.split()}
# RFC 822 defines the American names; of the others, these mean one offset. RFC 2822 4.3 says to read the military
# letters as UTC, because RFC 822 had their signs wrong.
_ZONES_BY_HOURS = {
    0.0: "UT UTC GMT Z WET",
    -2.5: "NDT",
    -3.0: "ADT BRT",
    -3.5: "NST",
    -4.0: "EDT AST",
    -5.0: "EST CDT",
    -6.0: "CST MDT",
    -7.0: "MST PDT",
    -8.0: "PST AKDT",
    -9.0: "AKST",
    -10.0: "HST",
    1.0: "BST CET MEZ WEST",
    2.0: "CEST MESZ EET SAST",
    3.0: "EEST MSK",
    8.0: "AWST HKT SGT",
    9.0: "JST KST",
    9.5: "ACST",
    10.0: "AEST",
    10.5: "ACDT",
    11.0: "AEDT",
    12.0: "NZST",
    13.0: "NZDT",
}
_ZONES = {name: timezone(timedelta(hours=hours)) for hours, names in _ZONES_BY_HOURS.items() for name in names.split()}
_WORD = r"[^\W\d_]+\.?"
# As RFC 822 wants it, which most feeds write: the patterns below find the same, and take three times as long.
_STANDARD = re.compile(
    r"(?:[A-Za-z]{3}, )?([0-9]{2}) ([A-Za-z]{3}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) (?:GMT|\+0000)"
)
_YEAR = r"(?P<year>[0-9]{4}|[0-9]{2,3}(?![0-9]))"
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?(?![A-Za-z]))?"
)
# 2026-01-31, 2026/1/31, 2026-01, 2026, 20260131, each perhaps with a time after it.
_ISO = re.compile(
    r"(?P<year>[0-9]{4})(?:(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?:(?P=mark)(?P<day>[0-9]{1,2}))?)?(?![0-9:-])"
)
_COMPACT = re.compile(
    r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"
    r"(?:[Tt ]?(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})?)?(?![0-9])"
)
# 31 Jan 2026, 31-Jan-26, Sat, 31st January, 2026; the weekday may be wrong, so it is not read.
_DAY_FIRST = re.compile(
    rf"(?:{_WORD}[,\s]\s*)*(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th|er|\.|º)?(?:\s+(?:de|of)\b)?[\s.-]*(?P<name>{_WORD})"
    rf"(?:\s+(?:de|of)\b)?[\s,.-]*{_YEAR}",
    re.IGNORECASE,
)
# Jan 31, 2026; Sat Jan 31 10:00:00 2026 and Sat Jan 31 10:00:00 PST 2026 (C, Java and Ruby).
_MONTH_FIRST = re.compile(
    rf"(?:{_WORD}[,\s]\s*)??(?P<name>{_WORD})\s*(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s*,\s*|\s+){_YEAR}(?!:)",
    re.IGNORECASE,
)
_CTIME = re.compile(
    rf"(?:{_WORD}[,\s]\s*)??(?P<name>{_WORD})\s*(?P<day>[0-9]{{1,2}}),?\s+{_CLOCK}\s*(?P<zone>\S*[^\s0-9]\S*)?\s*{_YEAR}",
    re.IGNORECASE,
)
# 31.1.2026 is day first; 31/1/2026 only if one of the numbers cannot be a month.
_NUMERIC = re.compile(r"(?P<first>[0-9]{1,2})(?P<mark>[./-])(?P<second>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{4})(?![0-9])")
_TIME = re.compile(rf"(?:[\s,]*(?:[Tt]|at\b|um\b|à\b)?[\s,]*|\s+-\s+){_CLOCK}")
_HOUR = re.compile(r"[Tt](?P<hour>[0-9]{2})(?![0-9.])")
_DIGIT = re.compile(r"[\s,]*[Tt]?\s*[0-9]")
_OFFSET = re.compile(
    r"\s*(?:(?:GMT|UTC?|Z)\s*)?(?P<sign>[+\u2212-])(?P<digits>[0-9]{1,2}:?[0-9]{2}|[0-9]{1,2})(?![0-9:])"
)
_ZONE_NAME = re.compile(r"\s*\(?(?P<name>[A-Za-z]+(?:/[A-Za-z_]+)*)")


class _Clock(NamedTuple):
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0


def parse_published(text: str) -> datetime | None:
    """Return the time that the date of an item means, in UTC; None if that is not certain.

    A date without a zone, or with an unknown one, is read as UTC.
    """
    try:
        return _parse_standard(text) or _parse(_clean(text))
    except (ValueError, OverflowError):  # the 31st of February, hour 25, year 0, an offset out of range
        return None


def format_published(text: str) -> str | None:
    """Return the time that the date of an item means in the text format of the store; None if that is not certain."""
    when = parse_published(text) if text else None
    return None if when is None else when.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def choose_published(text: str, first_seen_at: str) -> str:
    """Return when an item was published, or when it was first seen if its date is missing, unclear or in the future.

    Programs that have no date write the first moment that they can represent: the year 1 or 1970.
    """
    published = format_published(text)
    if published is None or published.startswith(_UNSET):
        return first_seen_at
    return min(published, first_seen_at)


def _clean(text: str) -> str:
    return " ".join(text[:_MAX_CHARS].replace("年", "-").replace("月", "-").replace("日", " ").split())


def _parse_standard(text: str) -> datetime | None:
    found = _STANDARD.fullmatch(text)
    month = _MONTHS.get(found[2].lower()) if found else None
    if found is None or month is None or found[6] == "60":
        return None
    return datetime(int(found[3]), month, int(found[1]), int(found[4]), int(found[5]), int(found[6]), tzinfo=UTC)


def _parse(text: str) -> datetime | None:
    if text.isascii() and text.isdecimal() and (units := _EPOCH_DIGITS.get(len(text))):
        return datetime.fromtimestamp(int(text) / units, UTC)
    if found := _COMPACT.match(text):
        year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
        if found["hour"]:
            clock = _Clock(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
            return _make(year, month, day, clock, _read_zone(text[found.end() :]))
        return _add_time(year, month, day, text[found.end() :])
    if (found := _ISO.match(text)) and (found["day"] or found.end() == len(text)):
        return _add_time(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1), text[found.end() :])
    if found := _NUMERIC.match(text):
        return _parse_numeric(found, text[found.end() :])
    for pattern in (_DAY_FIRST, _MONTH_FIRST):
        if (found := pattern.match(text)) and (named := _find_month(found["name"])):
            return _add_time(_expand_year(found["year"]), named, int(found["day"]), text[found.end() :])
    if (found := _CTIME.match(text)) and (named := _find_month(found["name"])):
        zone = _read_zone(found["zone"] or "")
        return _make(_expand_year(found["year"]), named, int(found["day"]), _read_clock(found), zone)
    return None


def _parse_numeric(found: re.Match[str], rest: str) -> datetime | None:
    first, second = int(found["first"]), int(found["second"])
    if found["mark"] == "." or first > 12 or first == second:
        return _add_time(int(found["year"]), second, first, rest)
    return _add_time(int(found["year"]), first, second, rest) if second > 12 else None


def _add_time(year: int, month: int, day: int, rest: str) -> datetime:
    """Return the day at the time that the rest of the text begins with, midnight if it has none."""
    found = _TIME.match(rest)
    if found is None:
        if hour := _HOUR.match(rest):
            return _make(year, month, day, _Clock(int(hour["hour"])), _read_zone(rest[hour.end() :]))
        if _DIGIT.match(rest):
            raise ValueError("a time in an unknown notation")
        return _make(year, month, day, _Clock(), _read_zone(rest))
    return _make(year, month, day, _read_clock(found), _read_zone(rest[found.end() :]))


def _make(year: int, month: int, day: int, clock: _Clock, zone: tzinfo) -> datetime:
    hour, minute, second, microsecond = clock
    is_next_day = (hour, minute, second) == (24, 0, 0)  # ISO 8601: the end of the day
    when = datetime(
        year, month, day, 0 if is_next_day else hour, minute, min(second, 59) if second == 60 else second, microsecond
    ) + timedelta(days=is_next_day)
    when = when.replace(tzinfo=zone)
    return when if zone is UTC else when.astimezone(UTC)


def _read_clock(found: re.Match[str]) -> _Clock:
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    microsecond = int((found["fraction"] or "").ljust(6, "0")[:6])
    return _Clock(hour, int(found["minute"]), int(found["second"] or 0), microsecond)


def _read_zone(rest: str) -> tzinfo:
    """Return the zone that the text begins with; UTC if it begins with none or an unknown one."""
    if found := _OFFSET.match(rest):
        digits = found["digits"].replace(":", "")
        hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
        total = hours * 60 + minutes
        if minutes > 59 or total >= _MAX_OFFSET_MINUTES:
            raise ValueError(f"no such offset: {digits}")
        return timezone(timedelta(minutes=total if found["sign"] == "+" else -total))
    found = _ZONE_NAME.match(rest)
    if found is None:
        return UTC
    if "/" in found["name"]:
        try:
            return ZoneInfo(found["name"])
        except (KeyError, OSError, ValueError):  # no such zone, or no database of zones
            return UTC
    return _ZONES.get(found["name"].upper(), UTC)


def _expand_year(digits: str) -> int:
    """Return the year; RFC 2822 4.3 says which century a year of two or three digits is in."""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 else year


def _find_month(name: str) -> int | None:
    plain = unicodedata.normalize("NFKD", name.lower().replace("ä", "ae"))
    letters = "".join(letter for letter in plain if letter.isascii() and letter.isalpha())
    return _MONTHS.get(letters[:4]) or _MONTHS.get(letters[:3])
