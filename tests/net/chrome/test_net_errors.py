"""Which network errors of Chrome are retried."""

from __future__ import annotations

import pytest

from canonry.errors import FailureKind
from canonry.net.chrome.net_errors import make_failure, parse_error_code

ERRORS = [
    # errorText of Chrome                    kind                             is retried
    ("net::ERR_CONNECTION_REFUSED",          FailureKind.CONNECT,             True),
    ("net::ERR_CONNECTION_RESET",            FailureKind.DISCONNECTED,        True),
    ("net::ERR_CONNECTION_TIMED_OUT",        FailureKind.TIMEOUT,             True),
    ("net::ERR_FAILED",                      FailureKind.BROWSER,             True),
    ("net::ERR_NETWORK_CHANGED",             FailureKind.DISCONNECTED,        True),
    ("net::ERR_PROXY_CONNECTION_FAILED",     FailureKind.CONNECT,             True),
    ("net::ERR_SOCKET_NOT_CONNECTED",        FailureKind.CONNECT,             True),
    ("net::ERR_TUNNEL_CONNECTION_FAILED",    FailureKind.CONNECT,             True),
    ("net::ERR_CERT_DATE_INVALID",           FailureKind.CERTIFICATE,         False),
    ("net::ERR_TOO_MANY_REDIRECTS",          FailureKind.TOO_MANY_REDIRECTS,  False),
    ("net::ERR_UNSAFE_REDIRECT",             FailureKind.BAD_REDIRECT,        False),
    ("net::ERR_INVALID_HTTP_RESPONSE",       FailureKind.NOT_HTTP,            False),
    ("net::ERR_SSL_PROTOCOL_ERROR",          FailureKind.NOT_LOADED,          False),
    ("net::ERR_EMPTY_RESPONSE",              FailureKind.NOT_LOADED,          False),
    ("net::ERR_SOMETHING_NEW",               FailureKind.NOT_LOADED,          False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "is_transient"), ERRORS)
def test_an_error_code_has_a_kind_that_decides_about_retries(text: str, kind: FailureKind, is_transient: bool) -> None:
    failure = make_failure(parse_error_code(text))
    assert (failure.kind, failure.is_transient) == (kind, is_transient)
    assert parse_error_code(text) in failure.detail
