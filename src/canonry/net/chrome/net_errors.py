"""Chrome's network error codes (`net::ERR_*`) as page failures.

All codes: https://source.chromium.org/chromium/chromium/src/+/main:net/base/net_error_list.h
"""

from __future__ import annotations

from canonry.errors import FailureKind
from canonry.net.engine import PageFailure

_PREFIX = "net::"
# Chrome reports a navigation that it gave up, for example for an empty answer, as aborted.
ABORTED_CODE = "ERR_ABORTED"
# The kind decides whether the page is retried. A code that is not listed is NOT_LOADED, which is never retried.
_KINDS = {
    "ERR_CONNECTION_ABORTED": FailureKind.DISCONNECTED,
    "ERR_CONNECTION_CLOSED": FailureKind.DISCONNECTED,
    "ERR_CONNECTION_FAILED": FailureKind.CONNECT,
    "ERR_CONNECTION_REFUSED": FailureKind.CONNECT,
    "ERR_CONNECTION_RESET": FailureKind.DISCONNECTED,
    "ERR_CONNECTION_TIMED_OUT": FailureKind.TIMEOUT,
    "ERR_FAILED": FailureKind.BROWSER,
    "ERR_NETWORK_ACCESS_DENIED": FailureKind.CONNECT,
    "ERR_NETWORK_ACCESS_REVOKED": FailureKind.CONNECT,
    "ERR_NETWORK_CHANGED": FailureKind.DISCONNECTED,
    "ERR_NETWORK_IO_SUSPENDED": FailureKind.DISCONNECTED,
    # Chrome cannot reach the proxy of this process, for example after Chrome's network process was killed.
    "ERR_PROXY_AUTH_REQUESTED": FailureKind.CONNECT,
    "ERR_PROXY_AUTH_REQUESTED_WITH_NO_CONNECTION": FailureKind.CONNECT,
    "ERR_PROXY_AUTH_UNSUPPORTED": FailureKind.CONNECT,
    "ERR_PROXY_CERTIFICATE_INVALID": FailureKind.CONNECT,
    "ERR_PROXY_CONNECTION_FAILED": FailureKind.CONNECT,
    "ERR_PROXY_DELEGATE_CANCELED_CONNECT_REQUEST": FailureKind.CONNECT,
    "ERR_PROXY_DELEGATE_CANCELED_CONNECT_RESPONSE": FailureKind.CONNECT,
    "ERR_PROXY_HTTP_1_1_REQUIRED": FailureKind.CONNECT,
    "ERR_PROXY_UNABLE_TO_CONNECT_TO_DESTINATION": FailureKind.CONNECT,
    "ERR_SOCKET_IS_CONNECTED": FailureKind.CONNECT,
    "ERR_SOCKET_NOT_CONNECTED": FailureKind.CONNECT,
    "ERR_SOCKET_RECEIVE_BUFFER_SIZE_UNCHANGEABLE": FailureKind.CONNECT,
    "ERR_SOCKET_SEND_BUFFER_SIZE_UNCHANGEABLE": FailureKind.CONNECT,
    "ERR_SOCKET_SET_RECEIVE_BUFFER_SIZE_ERROR": FailureKind.CONNECT,
    "ERR_SOCKET_SET_SEND_BUFFER_SIZE_ERROR": FailureKind.CONNECT,
    "ERR_TUNNEL_CONNECTION_FAILED": FailureKind.CONNECT,
    "ERR_BAD_SSL_CLIENT_AUTH_CERT": FailureKind.CERTIFICATE,
    "ERR_DISALLOWED_URL_SCHEME": FailureKind.INVALID_URL,
    "ERR_INVALID_HTTP_RESPONSE": FailureKind.NOT_HTTP,
    "ERR_INVALID_REDIRECT": FailureKind.BAD_REDIRECT,
    "ERR_INVALID_URL": FailureKind.INVALID_URL,
    "ERR_RESPONSE_HEADERS_TOO_BIG": FailureKind.TOO_LARGE,
    "ERR_TOO_MANY_REDIRECTS": FailureKind.TOO_MANY_REDIRECTS,
    "ERR_UNKNOWN_URL_SCHEME": FailureKind.INVALID_URL,
    "ERR_UNSAFE_REDIRECT": FailureKind.BAD_REDIRECT,
}
_CERTIFICATE_FAMILY = "ERR_CERT_"
_ADVICE = {"ERR_CERT_AUTHORITY_INVALID": ". To trust another CA, name its file in CANONRY_CA_FILE"}


def parse_error_code(error_text: str) -> str:
    """Return the code in an `errorText` of Chrome: `ERR_FAILED` for `net::ERR_FAILED`."""
    return error_text.removeprefix(_PREFIX)


def make_failure(code: str) -> PageFailure:
    """Return the failure that an error code of Chrome stands for."""
    kind = _KINDS.get(code, FailureKind.NOT_LOADED)
    if code.startswith(_CERTIFICATE_FAMILY):
        kind = FailureKind.CERTIFICATE
    return PageFailure(kind, f"Chrome could not open the page: {code}{_ADVICE.get(code, '')}")
