"""Values of a critic with memory: it goes through each trajectory from the first step to the last."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.memory.chunks import ChunkRows, chunk_rows
from longstride.policies.memory import Memory, Steps
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory


class ValuesInOrder(NamedTuple):
    """What a critic with memory says of a rollout.

    Attributes:
        values: float32[N], in units of the value normalisation.
        final_values: float32[rows], of the observations after the last step and the cuts of each trajectory.
        states: float32[kept, S], the critic's states before the chunks that keep theirs.
        carried: float32[trajectories, S], its states after the last step of each trajectory.
    """

    values: Tensor
    final_values: Tensor
    states: Tensor
    carried: Tensor


@torch.no_grad()
def values_in_order(
    model: ActorCritic,
    trajectories: Sequence[Trajectory],
    starts: np.ndarray,
    observations: tuple[Tensor, Tensor],
    begins: Tensor,
    carried: Tensor,
    most: int,
) -> ValuesInOrder:
    """Return the values of a rollout.

    Args:
        model: model whose critic has memory.
        trajectories: trajectories of the rollout.
        starts: int64[C], which of the states that are kept is the one before each of their chunks; -1 for none.
        observations: float32[N, O] before the steps, and float32[rows, O] after the last step and the cuts.
        begins: bool[N, 1], whether a step is the first of an episode.
        carried: float32[trajectories, S], states with which the rollout begins.
        most: trajectories that go through the critic at once.
    """
    device, steps, chunk = begins.device, observations[0], model.spec.chunk
    values, carried = torch.empty(len(steps), device=device), carried.clone()
    plain = chunk_rows([t.steps for t in trajectories], chunk)
    kept = sum(model.spec.kept_states(t.steps) for t in trajectories)
    states = torch.empty(kept, carried.shape[1], device=device)
    final_states = torch.zeros(len(observations[1]), carried.shape[1], device=device)
    lasts, cuts = _final_rows(trajectories, plain)
    for members, numbers in _in_order(plain.counts, most):
        rows, valid = (torch.from_numpy(part[numbers]).to(device) for part in (plain.rows, plain.valid))
        these, at = (torch.from_numpy(part).to(device) for part in (members, starts[numbers]))
        start, flat = carried.index_select(0, these), rows.flatten()
        states[at[at >= 0]] = start[at >= 0]
        normalised = model.normalised(steps.index_select(0, flat))
        after = _asked_for(plain.valid[numbers], [cuts.get(number, []) for number in numbers.tolist()], device)
        found, later = model.values_and_states(normalised, Memory(start, begins.index_select(0, flat)), after.steps)
        values[flat[valid.flatten()]] = found[valid.flatten()]
        carried.index_copy_(0, these, later[: len(these)])
        final_states[after.rows] = later[len(these) :]
    final_states[lasts] = carried
    none = torch.zeros(len(final_states), 1, dtype=torch.bool, device=device)
    final_values = model.values(model.normalised(observations[1]), memory=Memory(final_states, none))
    return ValuesInOrder(values, final_values, states, carried)


class _AskedFor(NamedTuple):
    """The steps of some chunks after which the state is needed.

    They are the last one of each chunk, then the cuts, with the rows of the observations after those.
    """

    steps: Steps
    rows: list[int]


def _asked_for(valid: np.ndarray, cuts: Sequence[Sequence[tuple[int, int]]], device: torch.device) -> _AskedFor:
    """Return them for bool[C, K], which places of the chunks hold a step, and (place, row) of the cuts in each."""
    asked = [(k, place, row) for k, of_chunk in enumerate(cuts) for place, row in of_chunk]
    chunks = np.array([*range(len(valid)), *(k for k, _, _ in asked)])
    places = np.array([*(valid.sum(axis=1) - 1), *(place for _, place, _ in asked)])
    steps = Steps(*(torch.from_numpy(part).to(device) for part in (chunks, places)))
    return _AskedFor(steps, [row for *_, row in asked])


def _final_rows(
    trajectories: Sequence[Trajectory], chunks: ChunkRows
) -> tuple[list[int], dict[int, list[tuple[int, int]]]]:
    """Return the rows of final observations: those after the last steps; chunk -> (place, row) of the cuts in it."""
    lasts, cuts, row = [], dict[int, list[tuple[int, int]]](), 0
    for t, first in zip(trajectories, (np.cumsum(chunks.counts) - chunks.counts).tolist(), strict=True):
        lasts.append(row)
        cut = np.flatnonzero(t.truncated[:-1]).tolist() if len(t.cut_observations) else []
        for k, step in enumerate(cut):
            number, place = divmod(step, chunks.rows.shape[1])
            cuts.setdefault(first + number, []).append((place, row + 1 + k))
        row += 1 + len(t.cut_observations)
    return lasts, cuts


def _in_order(counts: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (trajectories, their chunks), the first chunks of all trajectories before the second ones."""
    begins = np.cumsum(counts) - counts
    for place in range(int(counts.max())):
        members = np.flatnonzero(counts > place)
        for begin in range(0, len(members), most):
            some = members[begin : begin + most]
            yield some, begins[some] + place
