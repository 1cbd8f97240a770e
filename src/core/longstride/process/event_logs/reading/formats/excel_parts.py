"""Checks of the parts of a workbook before a library reads them: packed sizes, kinds of packing, entities."""

import zipfile
import zlib
from typing import IO, NoReturn
from xml.parsers import expat

from longstride.errors import UserError
from longstride.process.event_logs.reading.decode import DAMAGED_ARCHIVE
from longstride.process.event_logs.reading.formats.xes_table import refuse_doctype, require_tags
from longstride.process.event_logs.reading.limits import Guard

_CHUNK = 1 << 14
_MOST_PARTS = 20_000
_STREAMED = ("xl/worksheets/", "xl/sharedStrings", "xl/media/", "xl/embeddings/")
"""Prefixes of the names of parts that may be large: they are read row by row, or not at all."""
_LARGEST_OTHER = 64_000_000
"""Most bytes of any other part, which is read as a whole."""
_STRING_COST = 4
"""Bytes of memory for each byte of the XML with the strings of all sheets."""


class _RootFoundError(Exception):
    """Stops a parser at the first element, after which there can be no DOCTYPE."""


def require_harmless_parts(file: IO[bytes], guard: Guard) -> None:
    """Refuse a workbook with a password, with other packing than Excel's, with a DOCTYPE, or over a limit.

    Args:
        file: workbook, seekable.
        guard: limits, and the name of the file for messages.

    Raises:
        UserError: the workbook is refused, or is not an archive.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            _require_sizes(parts, file.seek(0, 2), guard)
            for part in parts:
                _refuse_packing(part, guard.source)
                _refuse_entities(archive, part, guard)
    except (*DAMAGED_ARCHIVE, RuntimeError, EOFError, zlib.error) as error:
        raise _damaged(guard.source, error) from None


def _damaged(source: str, error: Exception) -> UserError:
    return UserError(f"{source} is a damaged workbook: {str(error)[:300]}; save it again as .xlsx.")


def _require_sizes(parts: list[zipfile.ZipInfo], packed: int, guard: Guard) -> None:
    """Check the unpacked sizes against the limits; zipfile reads no more of a part than its stated size."""
    if len(parts) > _MOST_PARTS:
        raise UserError(f"{guard.source} is an archive of {len(parts):,} parts; save it again as .xlsx.")
    sheets = sum(part.filename.startswith("xl/worksheets/") and part.filename.endswith(".xml") for part in parts)
    guard.require_sheets(sheets)
    guard.require_bytes(sum(part.file_size for part in parts), packed)
    for part in parts:
        if part.filename.startswith("xl/sharedStrings"):
            guard.require_memory(_STRING_COST * part.file_size)
        if part.file_size > _LARGEST_OTHER and not part.filename.startswith(_STREAMED):
            raise UserError(
                f"{guard.source}: its part {part.filename[:100]!r} has {part.file_size:,} bytes, more than "
                f"{_LARGEST_OTHER:,}; save it again as .xlsx."
            )


def _refuse_packing(part: zipfile.ZipInfo, source: str) -> None:
    if part.flag_bits & 1:
        raise UserError(f"{source} is a workbook with a password; save it as .xlsx without one.")
    if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(
            f"{source} is packed by method {part.compress_type}, which workbooks do not use; save it again as .xlsx."
        )


def _refuse_entities(archive: zipfile.ZipFile, part: zipfile.ZipInfo, guard: Guard) -> None:
    """Read a part up to its first element and refuse a DOCTYPE; invalid XML is left to the reader."""

    def stop(*_: object) -> NoReturn:
        raise _RootFoundError

    parser, since = expat.ParserCreate(), 0
    refuse_doctype(parser, guard.source)
    parser.StartElementHandler = stop
    try:
        with archive.open(part) as content:
            while chunk := content.read(_CHUNK):
                parser.Parse(chunk, False)
                since += len(chunk)
                require_tags(since, guard.source)
    except (_RootFoundError, expat.ExpatError, LookupError):
        return
