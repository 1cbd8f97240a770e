"""Bytes of a log: unpacking, kind of file, text encoding, and errors as sentences."""

import codecs
import gzip
import io
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

from longstride.errors import UserError, reason
from longstride.process.event_logs.reading.limits import Guard

Kind = Literal["csv", "xes", "excel", "parquet", "json", "sqlite"]
"""Kinds of files."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_OLD_EXCEL_MAGIC = b"\xd0\xcf\x11\xe0"
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD = 1024
_PIECE = 1 << 20
"""Bytes read at once; time and memory are checked for each piece."""
_PACKED_PIECE = 1 << 16
"""The same for archives, whose bytes may unpack to a thousand times their number."""
_IN_MEMORY = 1 << 26
"""Bytes of an unpacked archive held in memory; a larger archive goes to a temporary file."""

DAMAGED_ARCHIVE = (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, struct.error)
"""Errors that ``zipfile`` raises for the directory of a damaged archive."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors of an unreadable file into sentences."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"There is no event log {path}.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is a damaged or incomplete gzip file: {reason(error)}.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is damaged {error.encoding.upper()} text ({error.reason}); save it as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot read the event log {path}: {reason(error)}.") from None
    except MemoryError:
        raise UserError(
            f"{path} needs more memory than this machine has free; free some, or split the log into parts."
        ) from None


class _Counted(io.RawIOBase):
    """Reads a file and holds its unpacked bytes to the limits."""

    def __init__(self, file: IO[bytes], guard: Guard, packed: int | None, piece: int) -> None:
        """Wrap a file with its packed size, None if it is not packed; each piece checks time and memory."""
        self._file, self._guard, self._packed = file, guard, packed
        self._piece, self._unchecked = piece, 0

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the file can be read again."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer and return their number; refuse more bytes than the limits allow."""
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        self._guard.require_bytes(self._file.tell(), self._packed)
        self._unchecked += len(content)
        if self._unchecked >= self._piece:
            self._unchecked = 0
            self._guard.check()
        return len(content)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the current position."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_log(path: Path, guard: Guard) -> IO[bytes]:
    """Open a file for reading, unpacked if it starts like a gzip file; refuse to read more than the limits allow.

    Raises:
        UserError: the file is a device or a pipe, which may never end.
    """
    require_file(path)
    packed = path.stat().st_size if is_packed(path) else None
    file = cast(IO[bytes], path.open("rb") if packed is None else gzip.open(path, "rb"))  # noqa: SIM115
    return cast(IO[bytes], io.BufferedReader(_Counted(file, guard, packed, _PIECE), _PIECE))


def require_file(path: Path, what: str = "log") -> None:
    """Refuse a pipe, a device or the standard input, which cannot be read again; ``what`` is in it.

    Raises:
        UserError: the path is none of a file, a folder and a missing file.
    """
    if str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        raise UserError(
            f"{path} is a device or a pipe, and a {what} is read more than once; save the {what} as a file, and name "
            "that."
        )


def open_archive(path: Path, guard: Guard) -> IO[bytes]:
    """Open a file for random access; a packed one is unpacked to a temporary file first."""
    content = open_log(path, guard)
    if is_packed(path):
        with content as file:
            content = cast(IO[bytes], tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
            shutil.copyfileobj(file, content, _PIECE)
        content.seek(0)
    return cast(IO[bytes], io.BufferedReader(_Counted(content, guard, None, _PACKED_PIECE), _PACKED_PIECE))


def read_log(path: Path, guard: Guard) -> bytes:
    """Return the unpacked bytes of a file; refuse more than the memory limits allow."""
    with open_log(path, guard) as file:
        pieces = []
        while piece := file.read(_PIECE):
            pieces.append(piece)
            guard.require_memory(2 * _PIECE * len(pieces))
        return b"".join(pieces)


def is_packed(path: Path) -> bool:
    """Return whether a file starts like a gzip file."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def kind_of(path: Path, guard: Guard) -> Kind:
    """Return the kind of a (packed) file by its first bytes, not by its name.

    Raises:
        UserError: the file is empty, or its kind is not supported.
    """
    with open_log(path, guard) as file:
        head = file.read(_HEAD)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"SQLite format 3\x00"):
        return "sqlite"
    if head.startswith(_OLD_EXCEL_MAGIC):
        raise UserError(
            f"{path} is an Excel workbook of the old kind or with a password; save it as .xlsx without one."
        )
    if head.startswith(_ZIP_MAGIC) and _is_workbook(path, guard):
        return "excel"
    if head.startswith(_ZIP_MAGIC) or (b"\x00" in head and encoding_of(head) == "utf-8-sig"):
        raise UserError(f"{path} is neither CSV nor XES; save a workbook as CSV (UTF-8), or unpack an archive.")
    return _kind_of_text(head, path)


def _kind_of_text(head: bytes, path: Path) -> Kind:
    text = head
    for mark in _BYTE_ORDER_MARKS:
        text = text.removeprefix(mark)
    text = text.replace(b"\x00", b"").lstrip()
    if not text:
        raise UserError(f"{path} is empty; expected an event log as CSV or XES.")
    if text.startswith(b"<"):
        return "xes"
    return "json" if text.startswith((b"{", b"[")) else "csv"


def _is_workbook(path: Path, guard: Guard) -> bool:
    try:
        with open_archive(path, guard) as file, zipfile.ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except DAMAGED_ARCHIVE:
        return False


def encoding_of(head: bytes) -> str:
    """Return the encoding of text by its first bytes: UTF-16 by its mark or its zero bytes, otherwise UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[0:_HEAD:2], head[1:_HEAD:2]
    if len(head) >= 4 and odd.count(0) > 0.8 * len(odd) and 0 not in even:
        return "utf-16-le"
    if len(head) >= 4 and even.count(0) > 0.8 * len(even) and 0 not in odd:
        return "utf-16-be"
    return "utf-8-sig"


def mended(text: str) -> str:
    """Return text that was read as UTF-8 with ``surrogateescape``, with invalid bytes read as Windows-1252.

    So names are right in UTF-8, Latin-1 and Windows-1252 files, and in files that mix them by line.
    """
    if text.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in text):
        return text
    return "".join(_letter(ord(c) - 0xDC00) if "\udc80" <= c <= "\udcff" else c for c in text)


def _letter(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:  # the five bytes that Windows-1252 does not define
        return chr(byte)
