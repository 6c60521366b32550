"""TLS for outgoing connections."""

from __future__ import annotations

import ssl
from functools import cache

from canonry.errors import CanonryError


@cache
def make_tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the CA certificates of a file, or the system's if the name is empty."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise CanonryError(f"CANONRY_CA_FILE: {ca_file}: {error.strerror or error}") from None
