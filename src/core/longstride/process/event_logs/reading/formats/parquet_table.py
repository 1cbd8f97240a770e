"""Event logs as Parquet files, by pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from longstride.errors import UserError, one_line
from longstride.process.event_logs.reading.limits import LONGEST_TEXT, Guard
from longstride.process.event_logs.reading.table import BLOCK_ROWS, Block, Table, cell_text

_WIDEST = 1_000
"""Most bytes of a cell of fixed width; wider ones do not occur in event logs."""


def parquet_table(file: IO[bytes], guard: Guard) -> Table:
    """Return the table of a Parquet file; times keep their UTC offsets.

    Args:
        file: seekable file.
        guard: limits, and the name of the file for messages.

    Raises:
        UserError: pyarrow is missing, the file is damaged, or a limit is exceeded.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{guard.source} is a Parquet file, and pyarrow is not installed: pip install pyarrow, or save the log as "
            "CSV."
        ) from None
    with _pyarrow_errors(guard.source):
        first = pyarrow.parquet.ParquetFile(file)
        _require_sizes(first.metadata, guard)
        schema = first.schema_arrow
        names = list(schema.names)

    def blocks(wanted: list[int]) -> Iterator[Block]:
        chosen = [names[i] for i in wanted]
        for index in wanted:
            _require_flat(schema.field(index), guard.source)
        with _pyarrow_errors(guard.source):
            # Repeated texts share one object: a file of 1 MB may repeat a text 200,000 times.
            parquet = pyarrow.parquet.ParquetFile(file, read_dictionary=chosen)
            yield from _blocks(parquet, chosen, guard)

    return Table([name.strip() for name in names], "row", blocks)


def _blocks(parquet: Any, chosen: list[str], guard: Guard) -> Iterator[Block]:
    number = 1
    for batch in parquet.iter_batches(BLOCK_ROWS, columns=chosen):
        guard.check()
        yield Block(range(number, number + len(batch)), [_texts(batch.column(n), guard) for n in chosen], [])
        number += len(batch)


@contextmanager
def _pyarrow_errors(source: str) -> Iterator[None]:
    """Turn errors into sentences; besides its own, pyarrow raises Python's errors for values that Python lacks."""
    import pyarrow

    try:
        yield
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError, KeyError, IndexError) as error:
        raise UserError(f"{source} is a damaged Parquet file: {one_line(error)}.") from None


def _require_sizes(metadata: Any, guard: Guard) -> None:
    """Check the stated numbers of rows, columns and unpacked bytes against the limits."""
    guard.require_rows(metadata.num_rows)
    guard.require_columns(metadata.num_columns)
    guard.require_bytes(sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)))


def _require_flat(field: Any, source: str) -> None:
    """Refuse a column of lists or structures, and one of very wide cells."""
    from pyarrow import types

    if types.is_nested(field.type):
        raise UserError(f"{source}: its column {field.name!r} holds {field.type!s:.60}, not single values; flatten it.")
    if types.is_fixed_size_binary(field.type) and field.type.byte_width > _WIDEST:
        raise UserError(f"{source}: its column {field.name!r} has cells of {field.type.byte_width:,} bytes.")


def _texts(column: Any, guard: Guard) -> Sequence[str]:
    """Return the cells of a column of any type as text."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_dictionary(column.type):
        values = [*_texts(column.dictionary, guard), ""]
        return [values[-1 if i is None else i] for i in column.indices.to_pylist()]
    if pyarrow.types.is_timestamp(column.type):
        aware = column.type.tz is not None
        column = compute.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{'%z' if aware else ''}")
    elif pyarrow.types.is_date(column.type):
        column = column.cast(pyarrow.string())  # days beyond Python's calendar become text that is not a time
    texts = [cell_text(cell) for cell in column.to_pylist()]
    require_short(texts, guard.source)
    return texts


def require_short(texts: Sequence[str], source: str) -> None:
    """Refuse a cell that is too long for an event log."""
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_TEXT:
        raise UserError(
            f"{source} has a cell of {longest:,} characters, more than {LONGEST_TEXT:,}; this is not an event log."
        )
