"""Writes refused_rows.csv: the bad rows that were left out of an event log, with reasons."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from longstride.escaping import csv_cell
from longstride.process.event_logs.reading.table import BadRow
from longstride.training.run_directory.files import write_or_refuse


def write_refused_rows(rows: Sequence[BadRow], unit: str, path: Path) -> None:
    """Write number, reason and cells of each row; ``unit`` is the unit that the numbers count.

    Raises:
        UserError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([unit, "reason", "cells"])
    for row in rows:
        number = f"{row.unit} {row.number}" if row.unit else row.number
        writer.writerow([number, csv_cell(row.reason), csv_cell(" | ".join(row.cells))])
    write_or_refuse(path, text.getvalue().encode("utf-8", "replace"))
