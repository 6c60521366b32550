"""Turn errors of the disk into a BulkError with one line."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Generator

pa: Any = pyarrow  # pyarrow has no type stubs
_NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def convert_disk_errors(failed_action: str) -> Generator[None]:
    """Raise a BulkError that begins with `failed_action` for errors of the file system and of Arrow."""
    try:
        yield
    except pa.ArrowException as error:
        raise BulkError(f"{failed_action}: {get_first_line(error)}") from error
    except OSError as error:
        if error.errno in _NO_SPACE_ERRORS:
            reason = "the disk is full" if error.errno == errno.ENOSPC else os.strerror(error.errno)
            raise BulkError(f"{failed_action}: {reason}. Free some space and run the same command to resume.") from None
        raise BulkError(f"{failed_action}: {error.strerror or error}") from error


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error message: libraries add stack traces after it."""
    return str(error).partition("\n")[0]
