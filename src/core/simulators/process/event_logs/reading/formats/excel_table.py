"""Event logs as Excel workbooks (.xlsx), by openpyxl: the sheet whose first row has most recognised columns."""

import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any
from xml.etree import ElementTree

from core.errors import UserError, one_line
from core.simulators.process.event_logs.reading.choose_columns import count_recognised
from core.simulators.process.event_logs.reading.table import Block, Table, blocks_of, cell_text


def excel_table(file: IO[bytes], source: str, columns: Mapping[str, str]) -> Table:
    """Return the table of a workbook; its header is the first row that is not empty.

    Args:
        file: workbook, seekable.
        source: name of the file, for messages.
        columns: column names that the user gave, by field; they help to find the sheet.

    Raises:
        UserError: openpyxl is missing, or the workbook is damaged or empty.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserError(
            f"{source} is an Excel workbook, and openpyxl is not installed: pip install openpyxl, or save the sheet as "
            "CSV (UTF-8)."
        ) from None
    try:
        book = load_workbook(file, read_only=True, data_only=True)
        headers = {name: _header(book[name]) for name in book.sheetnames if hasattr(book[name], "iter_rows")}
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, ValueError, TypeError, IndexError) as error:
        raise UserError(f"{source} is a damaged workbook: {one_line(error)}; save it again as .xlsx.") from None
    sheet = max(headers, key=lambda name: count_recognised(headers[name][1], columns), default="")
    if not sheet or not headers[sheet][1]:
        raise UserError(f"{source} is an empty workbook; expected a row of column names and a row for each event.")
    first, names = headers[sheet]

    def blocks(wanted: list[int]) -> Iterator[Block]:
        rows = enumerate(book[sheet].iter_rows(min_row=first + 1, values_only=True), first + 1)
        yield from blocks_of((number, [row[i] if i < len(row) else None for i in wanted]) for number, row in rows)

    notes = [f"The sheet {sheet!r} is read."] if len(headers) > 1 else []
    return Table(names, "row", blocks, notes)


def _header(sheet: Any) -> tuple[int, list[str]]:
    """Return number and cells of the first row that is not empty; no cells if there is none."""
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        names = [cell_text(cell) for cell in row]
        if any(names):
            while not names[-1]:
                names.pop()
            return number, names
    return 0, []
