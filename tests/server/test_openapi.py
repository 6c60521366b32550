"""Responses match the OpenAPI description: schemathesis requests every operation."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import requests

from canonry.server.app import make_app
from canonry.server.service import Service, ServiceOptions
from canonry.settings import Settings
from service import serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of its own dependencies
    import schemathesis
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi_checks

if TYPE_CHECKING:
    from collections.abc import Generator

    from service import Running

# The service runs in this process, and its threads use `random`, which hypothesis notices.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
EXAMPLES = 4
MAX_URL_CHARS = 60_000  # uvicorn refuses longer ones
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]
DESCRIBED: dict[str, Any] = make_app(Service(Settings(database_url="sqlite://"), ServiceOptions())).openapi()  # type: ignore[attr-defined]
CASES = [
    (f"{method.upper()} {path}", mode)
    for path, operations in DESCRIBED["paths"].items()
    for method, operation in operations.items()
    # An operation without input has no invalid input.
    for mode in (["positive", "negative"] if {"parameters", "requestBody"} & operation.keys() else ["positive"])
]


@pytest.fixture(scope="module", params=["personal", "token"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Running, str]]:
    """A service with some data, and a token of its owner or of an admin."""
    folder = tmp_path_factory.mktemp(request.param)
    # No rate limit: it has its own test. No Chrome: generated crawls fail at once.
    with serving(
        f"sqlite:///{folder / 'canonry.db'}", ServiceOptions(requests_per_minute=10**6), chrome="none"
    ) as found:
        users, now = found.service.users, found.service.clock()
        found.put("https://example.com/?a=1", title="one", tags=["a b", "c"])
        found.put("https://example.com/?a=1", "?on_duplicate=allow", description="its twin")
        found.ask("POST", "/api/feeds", {"url": "https://feeds.example/atom", "canonicalize": False})
        found.ask("POST", "/api/crawls", {"seed": "https://example.com/", "engine": "http"})
        found.ask("POST", "/api/import", {"content": "url\nhttps://example.com/?a=2\nx:"})
        found.ask("POST", "/api/admin/renormalizations", {"policy": "bookmark"})
        if request.param == "personal":
            yield found, asyncio.run(users.create_token("", now))
        else:
            yield found, asyncio.run(users.add("ada", now))[1]


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_responses_match_the_openapi_description(running: tuple[Running, str], operation: str, mode: str) -> None:
    service, token = running
    method, path = operation.split(" ")
    schema = schemathesis.openapi.from_dict(DESCRIBED)
    strategy = schema[path][method].as_strategy(generation_mode=schemathesis.GenerationMode(mode))
    session = requests.Session()
    session.trust_env = False

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @hypothesis.given(case=strategy)
    def check(case: schemathesis.Case[Any]) -> None:
        if path.startswith("/v1/"):
            case.query["auth_token"] = f"ada:{token}"
        else:
            case.headers["Authorization"] = f"Bearer {token}"
        if mode == "positive":
            point_to_existing_rows(case)
        url = case.as_transport_kwargs(base_url=service.url)
        hypothesis.assume(
            len(requests.Request("GET", url["url"], params=url.get("params")).prepare().url or "") < MAX_URL_CHARS
        )
        answer = case.call(base_url=service.url, session=session, timeout=120)
        case.validate_response(answer, checks=CHECKS)

    with session:
        check()


def point_to_existing_rows(case: schemathesis.Case[Any]) -> None:
    """Replace half of the ids and URLs by existing ones: generated ones hardly ever exist."""
    for name, value in case.path_parameters.items():
        if name.endswith("_id") and str(value).isdecimal() and int(value) % 2:
            case.path_parameters[name] = 1 + int(value) // 2 % 3
    for given in (case.query, case.body):
        for name in ("url", "seed"):
            if isinstance(given, dict) and len(str(given.get(name) or "")) % 2:
                given[name] = f"https://example.com/?a={len(str(given)) % 3}"


def test_a_405_response_lists_all_methods_of_the_path(running: tuple[Running, str]) -> None:
    service, token = running
    for path, operations in DESCRIBED["paths"].items():
        method = next(each for each in ("PATCH", "PUT") if each.lower() not in operations)
        has_head = "get" in operations and not path.startswith(("/v1/", "/api/greader/"))
        answer = service.ask(method, path.replace("{group_id}", "0" * 64), token=token)
        assert answer.status == 405
        assert answer.headers["allow"].split(", ") == sorted(
            map(str.upper, [*operations, *(["head"] if has_head else [])])
        )


def test_every_operation_has_a_summary_and_describes_its_problems() -> None:
    for operations in DESCRIBED["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            for status, answer in operation["responses"].items():
                if status >= "400":
                    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
                    assert answer["content"] == {"application/problem+json": problem}
