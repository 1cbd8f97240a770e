"""What training asks of the processes that train together, and the answers of one that trains alone.

Each process is a rank. It plays its share of the environment instances and learns from what it has collected; the sums
over all ranks decide, so that every rank takes the same steps and holds the same parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from torch import Tensor

from longstride.learning.advantages import Total

T = TypeVar("T")


class Ranks(Protocol):
    """The processes of a run. All of them must call the same methods in the same order.

    Raises:
        RankLostError: another rank has ended; this one cannot go on.
    """

    @property
    def rank(self) -> int:
        """Number of this process, from 0; the first one prints and writes."""

    @property
    def size(self) -> int:
        """Number of processes."""

    @property
    def host_rank(self) -> int:
        """Number of this process among those on this host."""

    @property
    def host_size(self) -> int:
        """Number of processes on this host."""

    @property
    def sums(self) -> Total | None:
        """The method :meth:`total`; None where there is one rank, whose sums are its own."""

    def total(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of float64[n] over all ranks."""

    def gather(self, part: T) -> list[T]:
        """Return the parts of all ranks in their order, any objects that can be pickled."""

    def gather_to_first(self, part: T) -> list[T]:
        """Return the parts of all ranks on the first one; elsewhere the own part alone."""

    def from_first(self, make: Callable[[], T]) -> T:
        """Return on all ranks what a function returns on the first, which alone calls it."""

    def add(self, parts: Sequence[Tensor]) -> None:
        """Replace flat float32 tensors on the update's device by their sums over all ranks, in one exchange."""

    def use_device(self, kind: str) -> None:
        """Prepare :meth:`add` for tensors on ``"cpu"`` or ``"cuda"``."""

    def advise(self, advice: Callable[[], str]) -> None:
        """Set what returns a sentence for a rank that is left alone: what is saved, and how to go on."""


class Alone:
    """One process: everything is its own, and nothing is exchanged (a :class:`Ranks`)."""

    rank: ClassVar[int] = 0
    size: ClassVar[int] = 1
    host_rank: ClassVar[int] = 0
    host_size: ClassVar[int] = 1
    sums: ClassVar[None] = None

    def total(self, numbers: np.ndarray) -> np.ndarray:
        """Return the numbers."""
        return numbers

    def gather(self, part: T) -> list[T]:
        """Return the part."""
        return [part]

    def gather_to_first(self, part: T) -> list[T]:
        """Return the part."""
        return [part]

    def from_first(self, make: Callable[[], T]) -> T:
        """Return what a function returns."""
        return make()

    def add(self, parts: Sequence[Tensor]) -> None:
        """Do nothing."""

    def use_device(self, kind: str) -> None:
        """Do nothing."""

    def advise(self, advice: Callable[[], str]) -> None:
        """Do nothing."""


ALONE: Ranks = Alone()


def any_of(flag: bool, total: Total | None) -> bool:
    """Return whether something holds for any rank; without sums, whether it holds here."""
    return flag if total is None else bool(total(np.array([flag], np.float64))[0] > 0.0)


def host_first(ranks: Ranks, function: Callable[[], T]) -> T:
    """Return what a function returns; the first rank of each host calls it before the others do.

    What it compiles and keeps on disk is then loaded by the others.
    """
    if ranks.host_rank != 0:
        wait_for_all(ranks)
        return function()
    result = function()
    wait_for_all(ranks)
    return result


def wait_for_all(ranks: Ranks) -> None:
    """Return once all ranks are here."""
    ranks.total(np.zeros(1))


def flattened(parts: list[list[Any]]) -> list[Any]:
    """Return the items of some lists, one list after another."""
    return [item for part in parts for item in part]
