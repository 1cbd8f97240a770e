"""Joining the processes of a run, and leaving them: with a result, or with an error that ends all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from longstride.errors import UserError
from longstride.learning.distributed.launch import Launch
from longstride.learning.distributed.ranks import ALONE, Ranks


@contextmanager
def joined_ranks(launch: Launch) -> Iterator[Ranks]:
    """Join the processes of a run, and leave them at the end; an error of one ends all.

    Raises:
        UserError: the error of this rank, ``alone`` where no other one prints the same.
    """
    if launch.size == 1:
        yield ALONE
        return
    from longstride.learning.distributed.process_group import ProcessGroup  # here, as some builds of torch lack it

    group = ProcessGroup(launch)
    try:
        yield group
        group.close()
    except UserError as error:
        error.alone = group.note(error)
        group.abandon()
        raise
    except BaseException:
        group.abandon()
        raise
