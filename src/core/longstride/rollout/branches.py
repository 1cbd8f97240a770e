"""Branches: from a sampled decision on, several short plays that differ in their first action alone."""

from typing import Any, NamedTuple

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.rollout.fault_locator import generator_in
from longstride.rollout.loop_arrays import Generators, LoopArrays, generator_places, new_loop_arrays
from longstride.rollout.trajectory import Trajectory, allocate
from longstride.seeding import stream
from longstride.simulators.simulator import OK, Simulator, describe_fault, naming_the_episode, new_state


class BranchPlan(NamedTuple):
    """How branches are played."""

    size: int  # branches of a sampled decision
    length: int  # most decisions of a branch
    interval: int  # decisions of an instance to each one that is sampled

    def points(self, steps: int) -> int:
        """Return how many of so many decisions are sampled."""
        return max(steps // self.interval, 1)


class Branches(NamedTuple):
    """The branches of an instance in a rollout: M of them, each of at most H decisions.

    Those of one sampled decision follow each other.

    Attributes:
        first: first decisions, [M]; it has no observation after the last one, and its rewards, elapsed times and ends
            are not set.
        rewards: float32[M, H], of each decision; 0 after an end.
        elapsed: float64[M, H], simulated time to the next decision; 0 after an end.
        lengths: int64[M], decisions of each.
        ends: float32[M, O], observations at the ends.
        terminated: bool[M], whether the process ended in the branch, so that nothing follows.
    """

    first: Trajectory
    rewards: np.ndarray
    elapsed: np.ndarray
    lengths: np.ndarray
    ends: np.ndarray
    terminated: np.ndarray

    def select(self, rows: slice) -> "Branches":
        """Return a view of some branches."""
        first = self.first._replace(**{name: getattr(self.first, name)[rows] for name in Trajectory._fields[:-1]})
        return Branches(first, *(column[rows] for column in self[1:]))

    def _last_end(self) -> np.ndarray:
        """Return float32[1, O], the observation after the last branch; anything where there is none."""
        return self.ends[-1:] if len(self.ends) else np.zeros((1, self.ends.shape[1]), np.float32)

    def as_steps(self, discounts: np.ndarray) -> tuple[Trajectory, np.ndarray]:
        """Return a trajectory of M steps, each of which earns the discounted rewards of a branch and is then cut.

        The discounts are float64[M, H], from each decision to the next; the other result are those of the whole
        branches, float64[M].
        """
        used = np.arange(discounts.shape[1]) < self.lengths[:, None]
        products = np.cumprod(np.where(used, discounts, 1.0), axis=1)
        before = np.concatenate([np.ones((len(products), 1)), products[:, :-1]], axis=1)
        cut = ~self.terminated
        steps = self.first._replace(
            observations=np.concatenate([self.first.observations, self._last_end()]),
            rewards=(before * self.rewards).sum(axis=1).astype(np.float32),
            elapsed=self.elapsed.sum(axis=1),
            control_variate=np.zeros(len(cut), np.float32),
            terminated=self.terminated,
            truncated=cut,
            cut_observations=self.ends[:-1][cut[:-1]],
        )
        return steps, products[:, -1]


def new_branches(spec: PolicySpec, plan: BranchPlan, points: int) -> Branches:
    """Return room for the branches of so many decisions."""
    rows = points * plan.size
    room = allocate(spec, rows)
    return Branches(
        first=room._replace(observations=room.observations[:rows]),
        rewards=np.zeros((rows, plan.length), np.float32),
        elapsed=np.zeros((rows, plan.length)),
        lengths=np.zeros(rows, np.int64),
        ends=np.zeros((rows, spec.observation_size), np.float32),
        terminated=np.zeros(rows, np.bool_),
    )


class BranchPlayer:
    """Plays branches from copies of an instance's state; the instance itself does not notice.

    All branches of a decision draw from the same random streams but for their first action, so that those with the
    same one are the same to the bit. The loop is that of :mod:`longstride.rollout.collect_steps`.
    """

    def __init__(self, simulator: Simulator, spec: PolicySpec, plan: BranchPlan, loop: Any) -> None:
        self._simulator, self._spec, self._plan, self._loop = simulator, spec, plan, loop
        self._first, self._rest = (
            allocate(spec, steps, lambda shape, dtype: np.zeros((plan.size, *shape), dtype))
            for steps in (1, max(plan.length - 1, 1))
        )
        self._simulators, self._policies = ([generator_in({}) for _ in range(plan.size)] for _ in range(2))

    def arguments(self, actor_params: np.ndarray) -> tuple[Any, ...]:
        """Return arguments of the loop, to compile it."""
        states = np.repeat(new_state(self._simulator), self._plan.size).view(np.recarray)
        pairs = tuple(zip(self._simulators, self._policies, strict=True))
        return states, pairs, self._simulator.parameters, actor_params, new_loop_arrays(self._first, self._spec)

    def play(
        self,
        actor_params: np.ndarray,
        states: tuple[np.ndarray, np.ndarray],
        age: int,
        name: tuple[int, ...],
        into: Branches,
    ) -> None:
        """Play the branches of a decision.

        Args:
            actor_params: float32[*], parameters of the actor.
            states: the simulator's record[1] and the policy's state, float32[1, *].
            age: steps that the episode has made.
            name: seed, instance, episode and age, which name the random streams.
            into: a view of the rows of the branches, written to.
        """
        seed, *index = name
        shared = stream(seed, "branch action", *index)
        for generators, purpose in ((self._simulators, "branch"), (self._policies, "branch policy")):
            begin = stream(seed, purpose, *index).bit_generator.state
            for generator in generators:
                generator.bit_generator.state = begin
        records = np.repeat(states[0], self._plan.size).view(np.recarray)
        arrays = new_loop_arrays(self._first, self._spec)
        arrays.policy_states[:], arrays.ages[:] = states[1], age
        self._run(records, [(each, shared) for each in self._simulators], actor_params, arrays, index)
        _write_first(self._first, into)
        goes_on = np.flatnonzero(~(self._first.terminated[:, 0] | self._first.truncated[:, 0]))
        if self._plan.length == 1 or not len(goes_on):
            return
        rest = new_loop_arrays(self._rest.select(slice(0, len(goes_on))), self._spec)
        rest.policy_states[:], rest.ages[:] = arrays.policy_states[goes_on], age + 1
        pairs = list(zip(self._simulators, self._policies, strict=True))
        # As many places however many go on: another number of eights would be compiled in the middle of a run.
        pairs = [pairs[i] for i in goes_on] + [pairs[0]] * (self._plan.size - len(goes_on))
        self._run(records[goes_on].view(np.recarray), pairs, actor_params, rest, index)
        _write_rest(self._rest, rest.next_rows, goes_on, into)

    def _run(
        self, states: Any, pairs: list[Generators], actor_params: np.ndarray, arrays: LoopArrays, index: list[int]
    ) -> None:
        """Continue some branches to the end of their rows, or raise what is wrong."""
        instance, number, age = index
        text = f"{number} of instance {instance}, a branch of step {age}"
        with naming_the_episode(self._simulator, text):
            self._loop(states, generator_places(pairs), self._simulator.parameters, actor_params, arrays)
        for status, steps in zip(arrays.statuses, arrays.ages, strict=True):
            if status != OK:
                raise describe_fault(int(status), self._simulator, text, int(steps))


def _write_first(rows: Trajectory, into: Branches) -> None:
    """Write the first decisions of the branches of one decision, rows [G, 1]."""
    first = into.first
    for name in ("observations", "actions", "log_probs", "masks", "features", "states"):
        getattr(first, name)[:] = getattr(rows, name)[:, 0]
    into.rewards[:, 0], into.elapsed[:, 0], into.lengths[:] = rows.rewards[:, 0], rows.elapsed[:, 0], 1
    into.rewards[:, 1:], into.elapsed[:, 1:] = 0.0, 0.0
    into.ends[:], into.terminated[:] = rows.observations[:, 1], rows.terminated[:, 0]


def _write_rest(rows: Trajectory, ends: np.ndarray, which: np.ndarray, into: Branches) -> None:
    """Write the further decisions, rows [S, H - 1] up to int64[S] ends, of int64[S], the branches that went on."""
    for k, (i, end) in enumerate(zip(which, ends, strict=True)):
        into.rewards[i, 1 : end + 1], into.elapsed[i, 1 : end + 1] = rows.rewards[k, :end], rows.elapsed[k, :end]
        into.lengths[i], into.ends[i] = end + 1, rows.observations[k, end]
        into.terminated[i] = rows.terminated[k, end - 1]
