"""canonry mcp, spoken to by the SDK's own client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters

import canonry
import feed_server
import mixed_urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMMAND = [sys.executable, "-m", "canonry", "mcp"]


@asynccontextmanager
async def talking(**environment: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment)
    async with Client(server, read_timeout_seconds=60) as client:
        yield client


async def called(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error
    answer: dict[str, Any] = result.structured_content
    return answer


async def refused(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    (said,) = result.content
    text: str = said.text  # type: ignore[union-attr]
    return text


def test_tools_only_read_and_say_what_they_answer() -> None:
    async def talk() -> None:
        async with talking() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["canonicalize", "explain", "normalize"]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.open_world_hint is (tool.name == "canonicalize")
            assert tool.output_schema is not None
            assert "url" in tool.output_schema["properties"]

    asyncio.run(talk())


def test_normalize_and_explain_say_what_canonry_says() -> None:
    async def talk() -> None:
        async with talking() as client:
            for url in mixed_urls.urls(60):
                if url is None or not (wanted := mixed_urls.normal(url, "article")):
                    continue
                answer = await called(client, "normalize", url=url, policy="article")
                assert answer == {
                    "url": canonry.normalize(canonry.read_url(url), "article"),
                    "policy": "article@0",
                    "hash": canonry.canonical_hash(wanted),
                }
                steps = (await called(client, "explain", url=url, policy="article"))["steps"]
                assert (steps[-1]["after"] if steps else url) == wanted

    asyncio.run(talk())


def test_errors_are_one_sentence() -> None:
    async def talk() -> None:
        async with talking() as client:
            for tool in ("normalize", "explain", "canonicalize"):
                said = await refused(client, tool, url="ftp://a.com/")
                assert said.endswith("not a usable URL: scheme ftp: is not http or https: 'ftp://a.com/'")
                assert "\n" not in said
            assert "no policy '/etc/passwd'; the shipped policies are" in await refused(
                client, "explain", url="https://a.com/", policy="/etc/passwd"
            )
            await refused(client, "canonicalize", url="https://a.com/", max_requests=99)
            # and it goes on
            assert (await called(client, "normalize", url="a.com"))["url"] == "https://a.com/"

    asyncio.run(talk())


@pytest.mark.parametrize("url", ["http://127.0.0.1/feed", "http://169.254.169.254/latest", "http://[::1]:8000/"])
def test_every_request_passes_the_guard(url: str) -> None:
    async def talk() -> None:
        async with talking() as client:
            assert "Refused: " in await refused(client, "canonicalize", url=url)

    asyncio.run(talk())


def test_canonicalize() -> None:
    async def talk(port: int) -> None:
        async with talking(CANONRY_ALLOW_NETWORKS="127.0.0.1/32", CANONRY_ALLOW_PORTS=str(port)) as client:
            found = await called(
                client, "canonicalize", url=f"http://127.0.0.1:{port}/feed/?utm_source=x", max_requests=2
            )
            assert found["url"] == f"http://127.0.0.1:{port}/feed"
            assert found["feed"] == {"title": "Twins", "format": "rss", "item_count": 5}
            assert {each["verdict"] for each in found["candidates"]} >= {"fetched", "same"}
            said = await refused(client, "canonicalize", url=f"http://127.0.0.1:{port}/none")
            assert "answered 404" in said

    with feed_server.run_feed_server() as server:
        asyncio.run(talk(server.port))


def test_a_person_who_starts_it_is_told_and_can_stop_it() -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(COMMAND, stdin=follower, stdout=follower, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == ("canonry: waiting for an MCP client on standard input; Ctrl-C ends it\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
        assert process.stderr.read() == ""
    os.close(leader)
    os.close(follower)


def test_it_ends_with_its_client() -> None:
    done = subprocess.run(COMMAND, input="", capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_sdk_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['mcp'] = None; from canonry.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "mcp"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "canonry: this needs more than the base install: pip install 'canonry[mcp]'\n"
