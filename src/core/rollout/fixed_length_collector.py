"""Rollouts of a fixed number of decisions: short episodes one after another, the last one goes on in the next."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numba.core.errors import NumbaError

from core.errors import UserError
from core.jit_cache.cache import cached, compile_for
from core.policies.compiled.forward import workspace
from core.policies.spec import PolicySpec
from core.rollout.episode_collector import CollectorState, Outcome, Rollout
from core.rollout.episode_loop import build_collect_steps
from core.rollout.trajectory import Allocate, Trajectory, allocate, allocate_plain
from core.seeding import stream
from core.simulators.compile_errors import describe_compile_error
from core.simulators.observe import compile_observe_state
from core.simulators.simulator import (
    OK,
    Simulator,
    compile_functions,
    describe_fault,
    metrics_of,
    naming_the_episode,
    new_state,
)


class _Instance:
    """One copy of the simulator and the episode that it is in.

    Attributes:
        states: array with the state record.
        trajectory: of the rollout.
        scratch: workspace of the actor.
        number: of the episode in this copy; -1 before the first.
        age: decisions that the episode has made.
        total: sum of its rewards.
        over: whether it has ended, so that another one has to begin.
        rng: of its simulator.
        policy_rng: of the policy in it.
    """

    def __init__(self, simulator: Simulator, spec: PolicySpec, steps: int, new: Allocate) -> None:
        observation, features = simulator.observation_size, simulator.action_feature_size
        self.states = new_state(simulator)
        self.trajectory: Trajectory = allocate(steps, observation, simulator.action_space, features, new, steps)
        self.scratch = workspace(spec)
        self.number, self.age, self.total, self.over = -1, 0, 0.0, True
        self.rng = self.policy_rng = np.random.Generator(np.random.PCG64(0))


class FixedLengthCollector:
    """Collects rollouts of a number of decisions from copies that play episode after episode.

    The streams of an episode are named by its copy and its number in the copy, so the result does not depend on the
    threads.

    Args:
        simulator: the simulator.
        spec: architecture of the policy.
        seed: the run's seed.
        parallel: copies.
        steps: decisions of a rollout, each copy.
        threads: most threads to use.
        new: allocator of trajectory arrays.
    """

    def __init__(
        self,
        simulator: Simulator,
        spec: PolicySpec,
        seed: int,
        parallel: int,
        steps: int,
        threads: int,
        new: Allocate | None = None,
    ) -> None:
        self.simulator, self.seed, self.steps, self.threads = simulator, seed, steps, min(threads, parallel)
        self._reset = cached(compile_functions(simulator).reset)
        self._go_on = cached(build_collect_steps(simulator, spec))
        self._copies = [_Instance(simulator, spec, steps, new or allocate_plain) for _ in range(parallel)]

    def collect(self, actor_params: np.ndarray, first_episode: int, count: int) -> tuple[list[Rollout], float]:
        """Play a rollout with each copy.

        Args:
            actor_params: float32[*], parameters of the actor.
            first_episode: not used: each copy counts its own episodes.
            count: number of copies that play.

        Returns:
            The rollouts and the seconds that playing them took.

        Raises:
            SimulatorError: the simulator broke its contract; episode and step are named.
        """
        begin = time.perf_counter()
        if self.threads == 1:
            played = [self._play(index, actor_params) for index in range(count)]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                played = list(pool.map(self._play, range(count), [actor_params] * count))
        return played, time.perf_counter() - begin

    def compile(self, actor_params: np.ndarray) -> float:
        """Compile the loop without playing; return the seconds it took.

        Raises:
            UserError: Numba cannot compile the simulator.
        """
        begin = time.perf_counter()
        copy = self._copies[0]
        start = (copy.states[0], self.simulator.parameters, copy.rng)
        try:
            compile_for(self._reset, start)
            compile_for(self._go_on, self._arguments(copy, actor_params, 0))
        except NumbaError as error:
            raise describe_compile_error(self.simulator, error) from error
        return time.perf_counter() - begin

    def compile_ahead(self) -> None:
        """Compile the reading of the state, into the folder of kernels."""
        copy = self._copies[0]
        rows = copy.trajectory.observations, copy.trajectory.masks, copy.trajectory.features
        compile_observe_state(self.simulator, copy.states[0], *(column[0] for column in rows))

    def unfinished(self) -> CollectorState:
        """Return the state of every copy: its record, and number, age, rewards and generators of its episode."""
        facts = [
            {
                **{name: getattr(copy, name) for name in ("number", "age", "total", "over")},
                "rng": copy.rng.bit_generator.state,
                "policy_rng": copy.policy_rng.bit_generator.state,
            }
            for copy in self._copies
        ]
        records = {f"rollout.{i}.state": _bytes_of(copy.states) for i, copy in enumerate(self._copies)}
        return CollectorState(records, facts)

    def restore(self, unfinished: CollectorState) -> None:
        """Go on with episodes; copies that are not among them begin with their first one.

        Raises:
            UserError: the state record is another one by now.
        """
        for i, (copy, facts) in enumerate(zip(self._copies, unfinished.facts, strict=False)):
            record = unfinished.records.get(f"rollout.{i}.state")
            if record is None or record.size != copy.states.nbytes:
                found = "is missing" if record is None else f"has {record.size} bytes, not {copy.states.nbytes}"
                raise UserError(
                    f"The state of an unfinished episode in the checkpoint {found}; resume with the simulator that "
                    "the run began with."
                )
            copy.states[:] = np.frombuffer(record.tobytes(), copy.states.dtype)
            for name in ("number", "age", "total", "over"):
                setattr(copy, name, facts[name])
            copy.rng, copy.policy_rng = (_generator(facts[name]) for name in ("rng", "policy_rng"))

    def _play(self, index: int, actor_params: np.ndarray) -> Rollout:
        """Fill the trajectory of a copy."""
        copy = self._copies[index]
        return fill(
            copy,
            self.steps,
            lambda: self._begin_episode(index, copy),
            lambda row: self._go_on_with(index, copy, actor_params, row),
            lambda: self._outcome(index, copy),
        )

    def _begin_episode(self, index: int, copy: _Instance) -> None:
        copy.number, copy.age, copy.total, copy.over = copy.number + 1, 0, 0.0, False
        copy.rng = stream(self.seed, "simulator", index, copy.number)
        copy.policy_rng = stream(self.seed, "policy", index, copy.number)
        with naming_the_episode(self.simulator, _name(index, copy)):
            self._reset(copy.states[0], self.simulator.parameters, copy.rng)

    def _go_on_with(self, index: int, copy: _Instance, actor_params: np.ndarray, begin: int) -> int:
        """Play a copy's episode to its end or to the end of the rollout; return the row after."""
        with naming_the_episode(self.simulator, _name(index, copy)):
            row, total, status = self._go_on(*self._arguments(copy, actor_params, begin))
        copy.age, copy.total = copy.age + row - begin, copy.total + float(total)
        if status != OK:
            raise describe_fault(status, self.simulator, _name(index, copy), copy.age)
        copy.over = bool(copy.trajectory.terminated[row - 1] or copy.trajectory.truncated[row - 1])
        return int(row)

    def _arguments(self, copy: _Instance, actor_params: np.ndarray, begin: int) -> tuple[Any, ...]:
        streams, where = (copy.rng, copy.policy_rng), (begin, self.steps, copy.age)
        return copy.states, self.simulator.parameters, actor_params, *streams, copy.trajectory, copy.scratch, *where

    def _outcome(self, index: int, copy: _Instance) -> Outcome:
        with naming_the_episode(self.simulator, _name(index, copy)):
            metrics = metrics_of(self.simulator, copy.states)
            return Outcome(copy.total, metrics, self.simulator.message(copy.states[0]))


class Fillable(Protocol):
    """A copy of anything that plays episode after episode."""

    trajectory: Trajectory
    over: bool


def fill(
    copy: Fillable,
    steps: int,
    begin: Callable[[], None],
    go_on: Callable[[int], int],
    outcome: Callable[[], Outcome],
) -> Rollout:
    """Fill a trajectory with episodes one after another, and keep the observations after their cuts.

    Args:
        copy: its ``over`` says whether an episode has to begin.
        steps: rows to fill.
        begin: begins an episode.
        go_on: plays it from a row on, to its end or to the last row, with the observation after it; returns the row
            after it and sets ``over``.
        outcome: of the episode that has just ended.
    """
    trajectory, row, cuts = copy.trajectory, 0, 0
    finished: list[Outcome] = []
    while row < steps:
        if copy.over:
            begin()
        row = go_on(row)
        if copy.over:
            finished.append(outcome())
        if trajectory.truncated[row - 1] and row < steps:
            trajectory.cut_observations[cuts] = trajectory.observations[row]
            cuts += 1
    return Rollout(trajectory.first(steps), finished)


def _name(index: int, copy: _Instance) -> str:
    return f"{copy.number} of copy {index}"


def _bytes_of(states: np.ndarray) -> np.ndarray:
    return np.frombuffer(states.tobytes(), np.uint8).copy()


def _generator(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator in a state that was saved."""
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = state
    return generator
