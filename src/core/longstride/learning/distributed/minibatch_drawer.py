"""Draws the minibatches of an update in a thread, those of all ranks from the same random stream."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from longstride.learning.device_transfer import host_allocator
from longstride.learning.distributed.ranks import Ranks
from longstride.learning.distributed.shares import most_slots, offsets, own_part, write_part
from longstride.learning.memory.chunks import weighted
from longstride.learning.minibatches import Minibatches, draw_epochs, minibatch_shape


class Draw(NamedTuple):
    """The minibatches of the epochs of an update, and the samples of all ranks in each.

    An epoch is waited for only where it begins, so that the first one begins before the last one is drawn.
    """

    epochs: Generator[Minibatches, None, None]
    samples: int


class MinibatchDrawer:
    """Draws so many epochs of minibatches of at most ``largest`` samples, of all ranks together.

    ``slots`` returns how many places a minibatch of a size should have.

    Every rank draws the minibatches of all of them, from the same random stream, and keeps its own samples. So each
    rank takes as many steps, and the minibatches do not depend on the number of ranks.
    """

    def __init__(
        self, epochs: int, largest: int, device: torch.device, slots: Callable[[int], int], ranks: Ranks
    ) -> None:
        self._epochs, self._largest, self._device, self._slots, self._ranks = epochs, largest, device, slots, ranks
        self._thread = ThreadPoolExecutor(1, "minibatches")

    def draw(
        self,
        samples: int,
        rng: np.random.Generator,
        sizes: np.ndarray | None = None,
        learned_from: np.ndarray | None = None,
    ) -> Draw:
        """Begin to draw, where a GPU can read the minibatches while the host goes on.

        Their indices are places in ``learned_from``, int64[samples], where that is given. Chunks weigh as much as they
        have steps, int64[chunks] ``sizes``.
        """
        if self._ranks.size > 1:
            return self._draw_part(samples, rng, sizes, learned_from)
        count, size = minibatch_shape(samples, self._largest)
        new = host_allocator(self._device.type == "cuda")
        room = new((self._epochs, count, self._slots(size)), np.dtype(np.int64))
        weights = None if sizes is None else new(room.shape, np.dtype(np.float32))

        def draw(epoch: int) -> list[Minibatches]:
            own = room[epoch : epoch + 1]
            minibatches = draw_epochs(own, samples, rng)
            if learned_from is not None:
                own[...] = learned_from[own]
            if sizes is None or weights is None:
                return minibatches
            return [weighted(minibatches[0], sizes, weights[epoch])]

        return Draw(_as_drawn([self._thread.submit(draw, epoch) for epoch in range(self._epochs)]), samples)

    def _draw_part(
        self, samples: int, rng: np.random.Generator, sizes: np.ndarray | None, learned_from: np.ndarray | None
    ) -> Draw:
        """Begin to draw this rank's part; see :meth:`draw`."""
        used = sizes if sizes is None or learned_from is None else sizes[learned_from]
        counts, all_sizes = map(list, zip(*self._ranks.gather((samples, used)), strict=True))
        everywhere, begin = sum(counts), offsets(counts)[self._ranks.rank]
        count, size = minibatch_shape(everywhere, self._largest)
        slots = self._slots(most_slots(size, samples, everywhere))

        def draw() -> list[Minibatches]:
            whole = draw_epochs(np.empty((self._epochs, count, size), np.int64), everywhere, rng)
            if sizes is not None:
                joined = np.concatenate(all_sizes)
                whole = [weighted(each, joined, np.empty(each.indices.shape, np.float32)) for each in whole]
            parts = [own_part(each, begin, samples) for each in whole]
            new = host_allocator(self._device.type == "cuda")
            shape = self._epochs, count, max(slots, *(int(part.counts.max()) for part in parts))
            indices, weights = new(shape, np.dtype(np.int64)), new(shape, np.dtype(np.float32))
            rooms = zip(parts, indices, weights, strict=True)
            return [write_part(part, learned_from, *room) for part, *room in rooms]

        return Draw(_as_drawn([self._thread.submit(draw)]), everywhere)


def _as_drawn(parts: Sequence[Future[list[Minibatches]]]) -> Generator[Minibatches, None, None]:
    """Yield the epochs as they are drawn; once closed, those that are not begun yet are never drawn."""
    try:
        for part in parts:
            yield from part.result()
    finally:
        for part in parts:
            part.cancel()
