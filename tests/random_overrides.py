"""Random overrides files of the format overrides.v1, and URLs that their rules may change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

HOSTS = ("a.com", "m.a.com", "www.a.com", "b.example", "en.wikipedia.org", "www.youtube.com", "github.com")
SEGMENTS = (
    "amp", "m", "q", "n", "t", "dp", "12", "s-a1", "s-b2;sid=1", "x-12.php", "12-y", "print", "index.html", "ABC", "",
    "index.php", "a.php.php", "shop", "item", "%C3%A9X", "wiki", "..", "s-a1.php", "a-title-123.html", "123-a-title.html",
    "p7", "p-7", "A.B.htm", ";sid=2", "x;a=1;SID=3;b", "watch", "a_b,c.d9", "9_9", "caf%c3%a9-1", "a..html", ".html",
)  # fmt: skip
PATHS = (
    "/",
    "/a/",
    "/shop/",
    "/wiki/",
    "/index.php",
    "/questions/#",
    "/#",
    "/n/#/t",
    "/item",
    "/shop/item",
    "/news",
    "/q/#/",
    "",
)
PARAMS = (
    "page=1", "view=a", "title=Foo", "title=s-a1", "title=..", "title=%2e", "b=1", "a=2", "title=;sid=1", "Title=x/y",
    "v=abc", "utm_source=1", "%61=3", "src", "", "id=7", "title=a%20b", "ref=x&ref=y", "T%49tle=1", "=1",
)  # fmt: skip
NAMES = ("page", "view", "a", "b", "src", "ref", "id", "title", "u*", "sid", "V*")
PLACES = ("first", "mid", "last")
SHAPES = ("s-#", "p-0", "0", "#", "s-#.php", "0-y", "p0")
KINDS = ("after-id", "before-id", "ends-with-id", "starts-with-id")


def make_overrides(choose: random.Random) -> str:
    """Make the JSON text of a file; some are refused, for example if hosts lead to each other."""
    hosts = choose.sample(HOSTS, choose.randrange(1, 4))
    return json.dumps({"format": "overrides.v1", "overrides": [_make_override(choose, host) for host in hosts]})


def _make_override(choose: random.Random, host: str) -> dict[str, Any]:
    def some(values: tuple[str, ...]) -> list[str]:
        return choose.sample(values, choose.randrange(1, 4))

    segments = tuple(segment for segment in SEGMENTS if segment not in ("", "..") and ";" not in segment)
    values = tuple(
        param for param in PARAMS if param and param[0] not in "=%T" and "&" not in param and "%" not in param
    )
    folders = tuple(path for path in PATHS if path.endswith("/"))
    rules: dict[str, Any] = {
        "drop_query_params": some(NAMES),
        "rewrite_rules": [
            {"from_prefix": f"https://{host}/{segment}/", "to_prefix": f"https://{host}/"}
            for segment in ("amp", "long/x")
        ],
        "drop_query_params_below": [{"folder": choose.choice(folders), "params": some(NAMES)} for _ in range(2)],
        "drop_query_params_at": [{"path": choose.choice(PATHS), "params": some(NAMES)} for _ in range(2)],
        "drop_query_values": some(values),
        "drop_path_params": some(("sid", "a", "b")),
        "drop_segments": [{"place": choose.choice(PLACES), "segment": each} for each in some(segments)],
        "drop_segment_shapes": [{"place": choose.choice(PLACES), "shape": each} for each in some(SHAPES)],
        "drop_extensions": some(("html", "php", "htm", "d9")),
        "drop_slugs": [{"kind": kind, "path": choose.choice(PATHS)} for kind in some(KINDS) for _ in range(3)],
        "query_to_path": [
            {"path": choose.choice(PATHS), "param": choose.choice(("title", "v", "id")), "to": choose.choice(folders)}
        ],
        "lower_case": some(PLACES),
        "strip_trailing_slash": True,
        "sort_query_params": True,
        "scheme": choose.choice(("http", "https")),
        "host": choose.choice(HOSTS),
    }
    chosen = choose.sample(sorted(rules), choose.randrange(1, 7))
    return {"match": {"host": host}, **{key: rules[key] for key in chosen}}


def make_url(choose: random.Random) -> str:
    """Make a URL of one of the hosts."""
    path = "".join(f"/{choose.choice(SEGMENTS)}" for _ in range(choose.randrange(6)))
    if choose.random() < 0.4:
        path = choose.choice(PATHS).replace("#", "77") + path.lstrip("/")
    params = "&".join(choose.choice(PARAMS) for _ in range(choose.randrange(5)))
    port = choose.choice(("", "", "", "", ":8080", ":443"))
    slash = choose.choice(("", "", "/"))
    start = f"{choose.choice(('http', 'https'))}://{choose.choice(HOSTS)}{port}{'' if path.startswith('/') or not path else '/'}"
    return (
        f"{start}{path}{slash if path else ''}{'?' + params if params else ''}{choose.choice(('', '', '#top', '#!/x'))}"
    )
