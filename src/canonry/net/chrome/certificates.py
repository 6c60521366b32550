"""Certificates of our own for a Chrome: a certificate store (NSS) in the home folder of its profile.

Chrome on Linux reads the store of its user, which is where people put the CA of their company. It is made by Chrome's
own library, `libnss3`, in a process of its own: `python -m canonry.net.chrome.certificates FOLDER CA_FILE`.
"""

from __future__ import annotations

import asyncio
import ctypes
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from canonry.errors import CanonryError

PLACE = ".pki/nssdb"  # in the home folder
_LIBRARY = "libnss3.so"
_SECONDS = 20.0
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_TRUSTED_CA = 0x08 | 0x10  # CERTDB_VALID_CA, CERTDB_TRUSTED_CA


async def trust_in(home: str, ca_file: str) -> None:
    """Have a Chrome with this home folder trust the CAs of a file; CanonryError says why it does not."""
    folder = Path(home) / PLACE
    folder.mkdir(parents=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(folder), ca_file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        raise CanonryError(f"{ca_file}: not read within {_SECONDS:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    if process.returncode:
        lines = said.decode(errors="replace").split("\n")
        raise CanonryError(f"{ca_file}: {next((line for line in reversed(lines) if line), 'no certificate store')}")


class _Item(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint), ("data", ctypes.c_char_p), ("length", ctypes.c_uint))


class _Trust(ctypes.Structure):
    _fields_ = (("tls", ctypes.c_uint), ("mail", ctypes.c_uint), ("code", ctypes.c_uint))


def write_store(folder: str, ca_file: str) -> None:
    """A new store with the certificates of a PEM file, each a CA that is trusted for web sites."""
    found = [
        part.partition(_BEGIN)[2] for part in Path(ca_file).read_text(encoding="ascii", errors="replace").split(_END)
    ]
    certificates = [ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{part}{_END}") for part in found[:-1]]
    if not certificates:
        raise CanonryError("no certificates in it")
    nss = _library()
    _must(nss.NSS_Initialize(f"sql:{folder}".encode(), b"", b"", b"secmod.db", 0), nss, "the store")
    slot, known = nss.PK11_GetInternalKeySlot(), nss.CERT_GetDefaultCertDB()
    if nss.PK11_NeedUserInit(slot):
        _must(nss.PK11_InitPin(slot, None, None), nss, "the store")
    for number, der in enumerate(certificates, 1):
        item, trust = _Item(0, der, len(der)), _Trust(_TRUSTED_CA, 0, 0)
        certificate = nss.CERT_NewTempCertificate(known, ctypes.byref(item), None, 0, 1)
        _must(0 if certificate else 1, nss, f"certificate {number}")
        _must(nss.PK11_ImportCert(slot, certificate, 0, f"canonry {number}".encode(), 0), nss, f"certificate {number}")
        _must(nss.CERT_ChangeCertTrust(known, certificate, ctypes.byref(trust)), nss, f"certificate {number}")


def _library() -> ctypes.CDLL:
    try:
        nss = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise CanonryError(f"there is no {_LIBRARY}, which Chrome's own certificate store needs") from None
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


def _must(status: int, nss: ctypes.CDLL, what: str) -> None:
    if status:
        raise CanonryError(f"{what}: error {nss.PORT_GetError()} of {_LIBRARY}")


if __name__ == "__main__":
    try:
        write_store(*sys.argv[1:])
    except (CanonryError, OSError, ValueError) as error:
        sys.exit(str(error))
