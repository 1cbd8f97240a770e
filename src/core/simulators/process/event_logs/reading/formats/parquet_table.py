"""Event logs as Parquet files, by pyarrow."""

from collections.abc import Iterator, Sequence
from typing import IO, Any

from core.errors import UserError, one_line
from core.simulators.process.event_logs.reading.table import BLOCK_ROWS, Block, Table, cell_text


def parquet_table(file: IO[bytes], source: str) -> Table:
    """Return the table of a Parquet file; times keep their UTC offsets.

    ``file`` is seekable; ``source`` is its name for messages.

    Raises:
        UserError: pyarrow is missing, or the file is damaged.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{source} is a Parquet file, and pyarrow is not installed: pip install pyarrow, or save the log as CSV."
        ) from None
    try:
        parquet = pyarrow.parquet.ParquetFile(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{source} is a damaged Parquet file: {one_line(error)}.") from None
    names = list(parquet.schema_arrow.names)

    def blocks(wanted: list[int]) -> Iterator[Block]:
        number = 1
        try:
            for batch in parquet.iter_batches(BLOCK_ROWS, columns=[names[i] for i in wanted]):
                columns = [_texts(batch.column(names[i])) for i in wanted]
                yield Block(range(number, number + len(batch)), columns, [])
                number += len(batch)
        except (pyarrow.ArrowException, OSError) as error:
            raise UserError(f"{source} is a damaged Parquet file: {one_line(error)}.") from None

    return Table([name.strip() for name in names], "row", blocks)


def _texts(column: Any) -> Sequence[str]:
    """Return the cells of a column of any type as text."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_timestamp(column.type):
        aware = column.type.tz is not None
        column = compute.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{'%z' if aware else ''}")
    return [cell_text(cell) for cell in column.to_pylist()]
