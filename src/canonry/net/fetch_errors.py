"""What went wrong with a request: the errors of aiohttp as failure kinds and sentences."""

from __future__ import annotations

import aiohttp

from canonry.errors import FailureKind

_MAX_DETAIL_CHARACTERS = 100


def classify_error(error: Exception) -> tuple[FailureKind, str]:
    """Return the kind of a failed request and its description for people."""
    match error:
        case aiohttp.ClientConnectorError() | aiohttp.ClientConnectorCertificateError() | UnicodeError():
            return _classify_connect_error(error)
        case aiohttp.ServerDisconnectedError():
            return FailureKind.DISCONNECTED, "the connection was closed without a response"
        case aiohttp.ClientPayloadError():
            return FailureKind.DISCONNECTED, "the connection was closed within the body"
        case aiohttp.ClientHttpProxyError():
            return FailureKind.PROXY, f"the proxy in CANONRY_PROXY answered {error.status}"
        case aiohttp.ClientResponseError():
            return FailureKind.PROTOCOL, f"not a valid HTTP response ({_shorten(error.message)})"
        case aiohttp.InvalidURL():  # the request's own URL was parsed before; the text would show the password
            return FailureKind.PROXY, "the proxy in CANONRY_PROXY is not a URL"
        case ConnectionError() | aiohttp.ClientOSError():
            return FailureKind.DISCONNECTED, f"the connection was closed ({error.strerror or type(error).__name__})"
        case _:
            return FailureKind.OTHER, f"{type(error).__name__}: {_shorten(str(error))}"


def _classify_connect_error(error: Exception) -> tuple[FailureKind, str]:
    """Return the same for a request that got no connection."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return FailureKind.DNS, f"the name does not resolve ({error.os_error.strerror or error.os_error})"
        case UnicodeError():  # from the lookup of a name that cannot be encoded
            return FailureKind.DNS, f"the name does not resolve ({error})"
        case aiohttp.ClientConnectorCertificateError():
            detail = getattr(error.certificate_error, "verify_message", "")
            return FailureKind.CERTIFICATE, f"the certificate is not valid ({detail})"
        case aiohttp.ClientConnectorSSLError():
            return FailureKind.TLS, "the TLS handshake failed"
        case aiohttp.ClientProxyConnectionError():
            detail = error.os_error.strerror or str(error.os_error)
            return FailureKind.PROXY, f"no connection to the proxy in CANONRY_PROXY ({detail})"
        case aiohttp.ClientConnectorError():
            detail = error.os_error.strerror or str(error.os_error) or "it was closed"
            return FailureKind.CONNECT, f"no connection ({detail})"
        case _:
            return FailureKind.CONNECT, f"no connection ({type(error).__name__})"


def _shorten(text: str) -> str:
    return " ".join(text.split())[:_MAX_DETAIL_CHARACTERS]
