"""canonry mcp, tested with the client of the MCP SDK over standard input and output."""

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
async def connect(**environment: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment)
    async with Client(server, read_timeout_seconds=240) as client:
        yield client


async def call_tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error
    answer: dict[str, Any] = result.structured_content
    return answer


async def call_and_fail(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    (content,) = result.content
    text: str = content.text  # type: ignore[union-attr]
    return text


def test_tools_are_read_only_and_describe_their_output() -> None:
    async def scenario() -> None:
        async with connect() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["canonicalize", "explain", "normalize", "resolve"]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.open_world_hint is (tool.name in {"canonicalize", "resolve"})
            assert tool.output_schema is not None
            assert "url" in tool.output_schema["properties"]

    asyncio.run(scenario())


def test_normalize_and_explain_equal_the_python_functions() -> None:
    async def scenario() -> None:
        async with connect() as client:
            for url in mixed_urls.urls(60):
                if url is None or not (wanted := mixed_urls.normal(url, "article")):
                    continue
                answer = await call_tool(client, "normalize", url=url, policy="article")
                assert answer == {
                    "url": canonry.normalize(canonry.read_url(url), "article"),
                    "policy": "article@1",
                    "hash": canonry.canonical_hash(wanted, "article"),
                }
                steps = (await call_tool(client, "explain", url=url, policy="article"))["steps"]
                assert (steps[-1]["after"] if steps else url) == wanted

    asyncio.run(scenario())


def test_errors_are_tool_errors_with_one_line() -> None:
    async def scenario() -> None:
        async with connect() as client:
            for tool in ("normalize", "explain", "canonicalize", "resolve"):
                message = await call_and_fail(client, tool, url="ftp://a.com/")
                assert "ftp://a.com/" in message and "\n" not in message
            message = await call_and_fail(client, "explain", url="https://a.com/", policy="/etc/passwd")
            assert "/etc/passwd" in message and "\n" not in message
            await call_and_fail(client, "canonicalize", url="https://a.com/", max_requests=99)
            # the server still works
            assert (await call_tool(client, "normalize", url="a.com"))["url"] == "https://a.com/"

    asyncio.run(scenario())


@pytest.mark.parametrize("url", ["http://127.0.0.1/feed", "http://169.254.169.254/latest", "http://[::1]:8000/"])
def test_canonicalize_refuses_private_addresses(url: str) -> None:
    async def scenario() -> None:
        async with connect() as client:
            assert "Refused: " in await call_and_fail(client, "canonicalize", url=url)

    asyncio.run(scenario())


def test_canonicalize_returns_the_feed_and_every_tested_url() -> None:
    async def scenario(port: int) -> None:
        async with connect(CANONRY_ALLOW_NETWORKS="127.0.0.1/32", CANONRY_ALLOW_PORTS=str(port)) as client:
            found = await call_tool(
                client, "canonicalize", url=f"http://127.0.0.1:{port}/feed/?utm_source=x", max_requests=2
            )
            assert found["url"] == f"http://127.0.0.1:{port}/feed"
            assert found["feed"] == {"title": "Twins", "format": "rss", "item_count": 5}
            assert {each["verdict"] for each in found["candidates"]} >= {"fetched", "same"}
            assert "404" in await call_and_fail(client, "canonicalize", url=f"http://127.0.0.1:{port}/none")

    with feed_server.run_feed_server() as server:
        asyncio.run(scenario(server.port))


def test_on_a_terminal_it_says_that_it_waits_and_ctrl_c_ends_it() -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(COMMAND, stdin=follower, stdout=follower, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "Ctrl-C" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGINT
            assert process.stderr.read() == ""
        finally:
            process.kill()  # or a failed assertion would wait for it forever
    os.close(leader)
    os.close(follower)


def test_the_server_ends_when_its_input_is_closed() -> None:
    done = subprocess.run(COMMAND, input="", capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_sdk_the_extra_is_named() -> None:
    code = "import sys; sys.modules['mcp'] = None; from canonry.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "mcp"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'canonry[mcp]'" in done.stderr and done.stderr.count("\n") == 1
