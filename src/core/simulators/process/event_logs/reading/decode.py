"""Bytes of a log: unpacking, kind of file, encoding of text, and errors as sentences."""

import codecs
import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from core.errors import UserError

Kind = Literal["csv", "xes", "excel", "parquet", "json", "sqlite"]
"""Kinds of files."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_OLD_EXCEL_MAGIC = b"\xd0\xcf\x11\xe0"
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD = 1024


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors of an unreadable file into sentences."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"There is no event log {path}.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is a damaged or incomplete gzip file: {error}.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is damaged {error.encoding.upper()} text ({error.reason}); save it as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot read the event log {path}: {error.strerror or error}.") from None


def open_log(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked if it starts like a gzip file."""
    return cast(IO[bytes], gzip.open(path, "rb") if is_packed(path) else path.open("rb"))


def is_packed(path: Path) -> bool:
    """Return whether a file starts like a gzip file."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def kind_of(path: Path) -> Kind:
    """Return the kind of a (packed) file; its first bytes decide, not its name.

    Raises:
        UserError: it is empty, or of no kind that is read.
    """
    with open_log(path) as file:
        head = file.read(_HEAD)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"SQLite format 3\x00"):
        return "sqlite"
    if head.startswith(_OLD_EXCEL_MAGIC):
        raise UserError(
            f"{path} is an Excel workbook of the old kind or with a password; save it as .xlsx without one."
        )
    if head.startswith(_ZIP_MAGIC) and _is_workbook(path):
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


def _is_workbook(path: Path) -> bool:
    try:
        with open_log(path) as file, zipfile.ZipFile(file) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def encoding_of(head: bytes) -> str:
    """Return the encoding of text from its first bytes: UTF-16 by its mark or its zero bytes, otherwise UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[0:_HEAD:2], head[1:_HEAD:2]
    if len(head) >= 4 and odd.count(0) > 0.8 * len(odd) and 0 not in even:
        return "utf-16-le"
    if len(head) >= 4 and even.count(0) > 0.8 * len(even) and 0 not in odd:
        return "utf-16-be"
    return "utf-8-sig"


def mended(text: str) -> str:
    """Return text that was read as UTF-8 with ``surrogateescape``; bytes that were no UTF-8 become Windows-1252.

    So names are right whether the file is UTF-8, Latin-1, Windows-1252, or lines of both.
    """
    if text.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in text):
        return text
    return "".join(_letter(ord(c) - 0xDC00) if "\udc80" <= c <= "\udcff" else c for c in text)


def _letter(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:  # the five bytes that Windows-1252 leaves free
        return chr(byte)
