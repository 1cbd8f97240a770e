"""What a batched collector asks of the policy: one forward pass for the rows of a half-batch."""

from collections.abc import Callable
from typing import Protocol

import numpy as np


class BatchedForward(Protocol):
    """The actor for half-batches of a fixed number of rows, of which any may be empty.

    No row depends on what is in another one. On a GPU the arrays are pinned memory.
    """

    observations: np.ndarray  # float32[halves, rows, O], not normalised; the collector writes them
    begins: np.ndarray  # bool[halves, rows, 1], whether an observation is the first of an episode
    note: str  # sentence about a forward pass that could not be captured, or empty
    outputs: np.ndarray  # float32[halves, rows, outputs], logits without action features, or means

    def prepare(self) -> float:
        """Prepare what the first forward pass needs; return the seconds it took."""

    def load(self, actor_params: np.ndarray) -> None:
        """Take the parameters of the actor, float32[*] in the flat layout."""

    def launch(self, half: int) -> None:
        """Begin to answer the observations of a half, which must stay until :meth:`wait`."""

    def wait(self, half: int) -> None:
        """Wait until the outputs of a half are there."""

    def read_states(self, half: int, into: np.ndarray) -> None:
        """Write the policy's states of the first rows of a half into float32[n, state_size].

        The last forward pass must have ended, here and in the next two.
        """

    def copy_states(self) -> Callable[[int], np.ndarray]:
        """Copy all states where they are; return what gives those of a half, float32[rows, state_size]."""

    def set_states(self, half: int, states: np.ndarray) -> None:
        """Set the policy's states of the first rows of a half, float32[n, state_size]."""
