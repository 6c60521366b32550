"""Make Chrome trust the CAs of `CANONRY_CA_FILE`.

Chrome on Linux reads additional CAs from an NSS certificate store in the home folder of its user. The store is written
with `libnss3`, the library that Chrome itself uses, by a subprocess: `python -m canonry.net.chrome.certificates FOLDER
CA_FILE`. The alternatives are compared in docs/decisions/0015-chrome-certificates.md
"""

from __future__ import annotations

import asyncio
import ctypes
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from canonry.errors import CanonryError

STORE_FOLDER = ".pki/nssdb"  # in the home folder
_LIBRARY = "libnss3.so"
_TIMEOUT_SECONDS = 20.0
_TRUSTED_CA = 0x08 | 0x10  # CERTDB_VALID_CA, CERTDB_TRUSTED_CA


async def trust_ca_file(home: str, ca_file: str) -> None:
    """Make a Chrome with this home folder trust the CAs of a PEM file; raise CanonryError if that fails."""
    folder = Path(home) / STORE_FOLDER
    folder.mkdir(parents=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(folder), ca_file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            _, stderr = await process.communicate()
    except TimeoutError:
        raise CanonryError(f"{ca_file}: no certificate store was written within {_TIMEOUT_SECONDS:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    if process.returncode:
        lines = [line for line in stderr.decode(errors="replace").split("\n") if line]
        raise CanonryError(f"{ca_file}: {lines[-1] if lines else 'no certificate store was written'}")


class _SecItem(ctypes.Structure):
    """SECItem of NSS: bytes with their length."""

    _fields_ = (("type", ctypes.c_uint), ("data", ctypes.c_char_p), ("length", ctypes.c_uint))


class _CertTrust(ctypes.Structure):
    """CERTCertTrust of NSS: trust flags for TLS, e-mail and code signing."""

    _fields_ = (("tls", ctypes.c_uint), ("mail", ctypes.c_uint), ("code", ctypes.c_uint))


def write_store(folder: str, ca_file: str) -> None:
    """Create a certificate store with the CAs of a PEM file, each trusted for TLS servers."""
    certificates = _read_certificates(ca_file)
    nss = _load_library()
    _check(nss, nss.NSS_Initialize(f"sql:{folder}".encode(), b"", b"", b"secmod.db", 0), "the certificate store")
    slot, database = nss.PK11_GetInternalKeySlot(), nss.CERT_GetDefaultCertDB()
    if nss.PK11_NeedUserInit(slot):
        _check(nss, nss.PK11_InitPin(slot, None, None), "the certificate store")
    for number, der in enumerate(certificates, 1):
        item, trust = _SecItem(0, der, len(der)), _CertTrust(_TRUSTED_CA, 0, 0)
        what = f"certificate {number}"
        certificate = nss.CERT_NewTempCertificate(database, ctypes.byref(item), None, 0, 1)
        _check(nss, 0 if certificate else 1, what)
        _check(nss, nss.PK11_ImportCert(slot, certificate, 0, f"canonry {number}".encode(), 0), what)
        _check(nss, nss.CERT_ChangeCertTrust(database, certificate, ctypes.byref(trust)), what)


def _read_certificates(ca_file: str) -> list[bytes]:
    """Return the CA certificates of a PEM file as DER: the ones that the HTTP client trusts, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise CanonryError(f"It is not a file of PEM certificates ({error.reason})") from None
    certificates = context.get_ca_certs(binary_form=True)
    if not certificates:
        raise CanonryError("It contains no CA certificates")
    return certificates


def _load_library() -> ctypes.CDLL:
    try:
        nss = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise CanonryError(f"{_LIBRARY} is missing. On Debian, run apt-get install libnss3.") from None
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("NSS_Initialize", number, [text, text, text, text, ctypes.c_uint32]),
        ("PK11_GetInternalKeySlot", pointer, []),
        ("CERT_GetDefaultCertDB", pointer, []),
        ("PK11_NeedUserInit", number, [pointer]),
        ("PK11_InitPin", number, [pointer, text, text]),
        ("CERT_NewTempCertificate", pointer, [pointer, pointer, text, number, number]),
        ("PK11_ImportCert", number, [pointer, pointer, ctypes.c_ulong, text, number]),
        ("CERT_ChangeCertTrust", number, [pointer, pointer, pointer]),
        ("PORT_GetError", number, []),
    ):
        function = getattr(nss, name)
        function.restype, function.argtypes = result, arguments
    return nss


def _check(nss: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        raise CanonryError(f"{_LIBRARY} could not write {what} (error {nss.PORT_GetError()})")


if __name__ == "__main__":
    try:
        write_store(*sys.argv[1:])
    except (CanonryError, OSError) as error:
        sys.exit(str(error))
