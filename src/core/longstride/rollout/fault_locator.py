"""Where a collection failed: its episodes are played again step by step, the last step as ordinary Python.

Compiled code says neither at which step an exception was raised nor in which line, and does not return from an endless
loop. Random streams are named, so the same parameters play the same episodes again to the bit. The state before the
failing step is then handed to the user's functions as ordinary Python, with every index checked.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import SimulatorError
from longstride.jit_cache.cache import cached, compile_for
from longstride.policies.compiled.forward import new_policy_states
from longstride.policies.compiled.sampling import build_place
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.loop_arrays import new_loop_arrays
from longstride.rollout.streams.generator_addresses import Generators, rows_of
from longstride.rollout.trajectory import allocate
from longstride.simulators.check.calls import Calls
from longstride.simulators.check.instrumented_arrays import Hints
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import OK, Simulator, describe_fault, new_state
from longstride.simulators.spaces import ActionSpace, Box, Discrete

Streams = Callable[[int], Generators]
"""Returns the random streams of simulator and policy in an episode, by its number."""


class StepSnapshot(NamedTuple):
    """An episode before a step."""

    number: int  # number of the episode
    age: int  # steps that it has made; -1 before its reset
    record: bytes  # bytes of the states, from :func:`record_of`
    rng: dict[str, Any]  # state of the simulator's generator
    policy_rng: dict[str, Any]  # state of the policy's generator


class ReplayedInstance(NamedTuple):
    """An environment instance whose collection is repeated."""

    suffix: str  # text after the number of an episode in its name
    streams: Streams  # random streams of its episodes
    begin: StepSnapshot  # snapshot before the collection
    steps: int | None  # number of steps to make; None to the end of the episode


class FaultLocator:
    """Repeats the collection of instances, one step a call of the compiled loop.

    ``snapshot`` is the episode before the present step, whose one row is in ``trajectory``.
    """

    def __init__(self, simulator: Simulator, spec: PolicySpec, actor_params: np.ndarray) -> None:
        self.simulator, self._spec, self._actor_params = simulator, spec, actor_params
        self._loop = cached(build_collect_steps(simulator, spec))
        self.trajectory = allocate(spec, 1, np.zeros)
        self._states = new_state(simulator)
        self._arrays = new_loop_arrays(self.trajectory.select(None), spec, self._states)
        self.name, self.snapshot = "", StepSnapshot(0, -1, b"", {}, {})

    def compile(self) -> None:
        """Compile the loop, or load it, so that the time for it is not taken for an endless loop."""
        compile_for(self._loop, self._arguments((generator_in({}), generator_in({}))))

    def play(self, instances: Iterable[ReplayedInstance]) -> SimulatorError | None:
        """Play; return the first failure, before whose step :attr:`snapshot` stays, or None."""
        try:
            for instance in instances:
                self._play(instance)
        except SimulatorError as error:
            return error
        return None

    def _play(self, instance: ReplayedInstance) -> None:
        number, age, record, rng, policy_rng = instance.begin
        generators, made = (generator_in(rng), generator_in(policy_rng)), 0
        load_record(record, self._states, self._arrays.policy_states)
        while instance.steps is None or made < instance.steps:
            self.name = f"{number}{instance.suffix}"
            if age < 0:
                generators = instance.streams(number)
            self._take_snapshot(number, age, generators)
            age, made = self._step(age, generators), made + 1
            if self.trajectory.terminated[0] or self.trajectory.truncated[0]:
                if instance.steps is None:
                    return
                number, age = number + 1, -1

    def _step(self, age: int, generators: Generators) -> int:
        """Make one step, after a reset where the age is -1; return the age after it."""
        self._arrays.next_rows[0], self._arrays.ages[0] = 0, age
        with naming_the_episode(self.simulator, self.name):
            self._loop(*self._arguments(generators))
        age = int(self._arrays.ages[0])
        if self._arrays.statuses[0] != OK:
            raise describe_fault(int(self._arrays.statuses[0]), self.simulator, self.name, age)
        return age

    def _arguments(self, generators: Generators) -> tuple[Any, ...]:
        return self._states, rows_of([generators]), self.simulator.parameters, self._actor_params, self._arrays

    def _take_snapshot(self, number: int, age: int, generators: Generators) -> None:
        states = (dict(generator.bit_generator.state) for generator in generators)
        self.snapshot = StepSnapshot(number, age, record_of(self._states, self._arrays.policy_states), *states)

    def as_python(self, seconds: float, compiled_helpers: bool) -> SimulatorError | None:
        """Make the present step as ordinary Python; return what is wrong with it, with the user's line, or None.

        ``seconds`` and ``compiled_helpers`` are those of :class:`longstride.simulators.check.calls.Calls`.
        """
        call = Calls(self.simulator, seconds, Hints(), compiled_helpers)
        call.episode, call.step = self.name, max(self.snapshot.age, 0)
        try:
            with np.errstate(all="ignore", divide="raise"):
                self._as_python(call)
        except SimulatorError as error:
            return error
        return None

    def _as_python(self, call: Calls) -> None:
        states, rng = new_state(self.simulator), generator_in(self.snapshot.rng)
        load_record(self.snapshot.record, states, new_policy_states(self._spec, 1))
        state = states[0]
        if self.snapshot.age < 0:
            call("reset", state, self.simulator.parameters, rng)
        call.observe(state)
        call.action_features(state, call.action_mask(state))
        call.clocks(state)
        _, terminated = call.outcome(state, self._action(), rng)
        call.clocks(state)
        cut = call.truncated(state) or max(self.snapshot.age, 0) + 1 == self.simulator.max_steps
        call.step += 1
        call.observe(state)
        if not (terminated or cut):
            call.action_features(state, call.action_mask(state))

    def _action(self) -> Any:
        """Return what ``step`` received in the present step."""
        space, drawn = self.simulator.action_space, self.trajectory.actions[0]
        return int(drawn) if isinstance(space, Discrete) else received_action(space, drawn)


def received_action(space: ActionSpace, drawn: np.ndarray) -> np.ndarray:
    """Return the row that a simulator receives for the draw of a trajectory's row: within the bounds of a Box."""
    if isinstance(space, Box):
        place = build_place(space)
        return np.array([place(x, i) for i, x in enumerate(drawn)], np.float32)
    return drawn.copy()


def find_fault(locator: FaultLocator, instances: Sequence[ReplayedInstance], patience: float) -> SimulatorError | None:
    """Repeat the collection of instances until one fails, or does not return from a step.

    ``patience`` is the most seconds for a step.

    Returns:
        What is wrong, with episode, step and the user's line; None if nothing fails this time. An endless loop
        continues in a thread that nothing can stop: the process has to end by ``os._exit``.
    """
    locator.compile()
    results: list[SimulatorError | None] = []
    thread = threading.Thread(target=lambda: results.append(locator.play(instances)), daemon=True)
    thread.start()
    last = None
    while thread.is_alive() and last is not locator.snapshot:
        last = locator.snapshot
        thread.join(patience)
    if results and results[0] is None:
        return None
    error = locator.as_python(patience, compiled_helpers=bool(results))
    if error is not None:
        return error
    fault = str(results[0]).rstrip(".") if results else f"compiled code did not return within {patience:g} s"
    return SimulatorError(
        f"{type(locator.simulator).__name__}, episode {locator.name}, step {max(locator.snapshot.age, 0)}: {fault}; "
        "the same step as ordinary Python does not fail."
    )


def generator_in(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator in a state that was saved; a fresh one for an empty state."""
    generator = np.random.Generator(np.random.PCG64(0))
    if state:
        generator.bit_generator.state = state
    return generator


def record_of(states: np.ndarray, policy_states: np.ndarray) -> bytes:
    """Return the bytes of the states of an instance, the simulator's record[1] and the policy's float32[1, *]."""
    return states.tobytes() + policy_states.tobytes()


def load_record(record: bytes, states: np.ndarray, policy_states: np.ndarray) -> None:
    """Set the states to those that :func:`record_of` returned the bytes of."""
    states[:] = np.frombuffer(record[: states.nbytes], states.dtype)
    policy_states[:] = np.frombuffer(record[states.nbytes :], np.float32)
