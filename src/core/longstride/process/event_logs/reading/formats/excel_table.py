"""Event logs as Excel workbooks (.xlsx), by openpyxl: the sheet whose header has the most recognised columns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from longstride.errors import UserError, one_line
from longstride.process.event_logs.reading.choose_columns import count_recognised
from longstride.process.event_logs.reading.formats.excel_parts import require_harmless_parts
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.table import Block, Table, blocks_of, cell_text

_LAST_ROW = 1_048_576
"""Number of the last row of a sheet in Excel."""
_HEADER_ROWS = 1_000
"""Number of first rows that may contain the header."""


def excel_table(file: IO[bytes], guard: Guard, columns: Mapping[str, str]) -> Table:
    """Return the table of a workbook; its first non-empty row is the header.

    Args:
        file: workbook, seekable.
        guard: limits, and the name of the file for messages.
        columns: column names that the user gave, by field; they help to find the sheet.

    Raises:
        UserError: openpyxl is missing, the workbook is damaged or empty, or a limit is exceeded.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserError(
            f"{guard.source} is an Excel workbook, and openpyxl is not installed: pip install openpyxl, or save the "
            "sheet as CSV (UTF-8)."
        ) from None
    require_harmless_parts(file, guard)
    with _openpyxl_errors(guard.source):
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheets = {name: book[name] for name in book.sheetnames if hasattr(book[name], "iter_rows")}
        guard.require_sheets(len(sheets))
        headers = {name: _header(sheet, guard) for name, sheet in sheets.items()}
    sheet = max(headers, key=lambda name: count_recognised(headers[name][1], columns), default="")
    if not sheet or not headers[sheet][1]:
        raise UserError(
            f"{guard.source} is an empty workbook; expected a row of column names and a row for each event."
        )
    first, names = headers[sheet]

    def blocks(wanted: list[int]) -> Iterator[Block]:
        rows = _rows(sheets[sheet], first + 1, None, max(wanted, default=0) + 1, guard)
        yield from blocks_of((number, [row[i] if i < len(row) else None for i in wanted]) for number, row in rows)

    notes = [f"The sheet {sheet!r} is read."] if len(headers) > 1 else []
    return Table(names, "row", blocks, notes)


@contextmanager
def _openpyxl_errors(source: str) -> Iterator[None]:
    """Turn errors into sentences; openpyxl raises nearly every built-in error for a damaged workbook."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        what = one_line(error) or type(error).__name__
        raise UserError(f"{source} is a damaged workbook: {what}; save it again as .xlsx.") from None


def _rows(sheet: Any, first: int, last: int | None, width: int, guard: Guard) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield number and cells of the non-empty rows of a sheet, from a first to a last row (None for all).

    Raises:
        UserError: the workbook is damaged, or has row numbers that Excel does not have.
    """
    # The size that a sheet states is often wrong.
    sheet.reset_dimensions()
    with _openpyxl_errors(guard.source):
        rows = sheet.iter_rows(min_row=first, max_row=last, max_col=width, values_only=True)
        for number, row in enumerate(rows, first):
            if number > _LAST_ROW:
                raise UserError(
                    f"{guard.source}: the sheet {sheet.title!r} has a row beyond {_LAST_ROW:,}, the last one of Excel; "
                    "save it again as .xlsx, or as CSV."
                )
            if row.count(None) < len(row):
                yield number, row


def _header(sheet: Any, guard: Guard) -> tuple[int, list[str]]:
    """Return number and cells of the first non-empty row; no cells if there is none."""
    for number, row in _rows(sheet, 1, _HEADER_ROWS, guard.limits.max_columns + 1, guard):
        if any(row) and any(names := [cell_text(cell) for cell in row]):
            while not names[-1]:
                names.pop()
            return number, names
    return 0, []
