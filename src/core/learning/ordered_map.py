"""A function applied by threads, with its results in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def map_in_order(
    pool: ThreadPoolExecutor | None, function: Callable[[U], T], items: Iterable[U], ahead: int
) -> Iterator[T]:
    """Yield the results of a function in the order of its arguments. After a failure no thread holds memory any more.

    Args:
        pool: threads that call the function; None for this one.
        function: function of one argument.
        items: arguments.
        ahead: most calls whose results have not been yielded.
    """
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[T]] = deque()
    try:
        for item in items:
            if len(pending) == ahead:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        wait(pending)
