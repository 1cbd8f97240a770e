"""Where a round failed: its episodes played again one decision at a time, the last one as ordinary Python.

Compiled code says neither at which decision an exception was raised nor in which line, and does not return from an
endless loop. Random streams are named, so the same weights play the same episodes again to the bit; what the decision
before the failure left behind is then handed to the user's functions as they stand, with every index checked.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from core.errors import SimulatorError
from core.jit_cache.cache import cached, compile_for
from core.policies.compiled.forward import workspace
from core.policies.compiled.sampling import clip, squash
from core.policies.spec import PolicySpec
from core.rollout.episode_loop import build_collect_steps
from core.rollout.trajectory import allocate
from core.simulators.check.calls import Calls
from core.simulators.check.instrumented_arrays import Hints
from core.simulators.simulator import OK, Simulator, compile_functions, describe_fault, naming_the_episode, new_state
from core.simulators.spaces import Box, Discrete

Streams = Callable[[int], tuple[np.random.Generator, np.random.Generator]]
"""Returns the streams of the simulator and of the policy in an episode, by its number."""


class StepSnapshot(NamedTuple):
    """What there was before a decision.

    Attributes:
        number: of the episode.
        age: decisions that it had made; -1 before its reset.
        record: bytes of the state.
        rng: state of the simulator's generator.
        policy_rng: state of the policy's generator.
    """

    number: int
    age: int
    record: bytes
    rng: dict[str, Any]
    policy_rng: dict[str, Any]


class ReplayedInstance(NamedTuple):
    """A copy of the simulator whose round is played again.

    Attributes:
        name: appended to the number of an episode, for people.
        streams: of its episodes.
        begin: where it stood; ``age`` is -1 where an episode is to begin.
        decisions: that it has to make; None to the end of the episode.
    """

    name: str
    streams: Streams
    begin: StepSnapshot
    decisions: int | None


class FaultLocator:
    """Plays copies again, one decision a call of the compiled loop.

    Args:
        simulator: not an environment of Gymnasium.
        spec: architecture of the policy.
        actor_params: float32[*], parameters of the actor.

    Attributes:
        name: of the episode.
        standing: before the decision in hand.
        trajectory: of one row, that of the decision in hand.
    """

    def __init__(self, simulator: Simulator, spec: PolicySpec, actor_params: np.ndarray) -> None:
        self.simulator, self._actor_params = simulator, actor_params
        self._reset = cached(compile_functions(simulator).reset)
        self._go_on = cached(build_collect_steps(simulator, spec))
        self._scratch = workspace(spec)
        space = simulator.action_space
        self.trajectory = allocate(1, simulator.observation_size, space, simulator.action_feature_size)
        self.name, self.standing = "", StepSnapshot(0, -1, b"", {}, {})

    def compile(self) -> None:
        """Compile the loop, or load it, so that no time is taken for an endless one."""
        rng, states = generator_in({}), new_state(self.simulator)
        compile_for(self._reset, (states[0], self.simulator.parameters, rng))
        compile_for(self._go_on, self._arguments(states, rng, rng, 0))

    def play(self, copies: Iterable[ReplayedInstance]) -> SimulatorError | None:
        """Play; return the first failure, at whose decision :attr:`standing` stays, or None."""
        try:
            for copy in copies:
                self._play(copy)
        except SimulatorError as error:
            return error
        return None

    def _play(self, copy: ReplayedInstance) -> None:
        states, standing, made = new_state(self.simulator), copy.begin, 0
        states[:] = np.frombuffer(standing.record, states.dtype)
        rng, policy_rng = (generator_in(state) for state in standing[3:])
        number, age = standing.number, standing.age
        while copy.decisions is None or made < copy.decisions:
            self.name = f"{number}{copy.name}"
            if age < 0:
                rng, policy_rng = copy.streams(number)
                self._stand(number, -1, states, rng, policy_rng)
                with naming_the_episode(self.simulator, self.name):
                    self._reset(states[0], self.simulator.parameters, rng)
                age = 0
            self._stand(number, age, states, rng, policy_rng)
            self._decide(states, rng, policy_rng, age)
            made, age = made + 1, age + 1
            if self.trajectory.terminated[0] or self.trajectory.truncated[0]:
                if copy.decisions is None:
                    return
                number, age = number + 1, -1

    def _decide(self, states: np.ndarray, rng: np.random.Generator, policy_rng: np.random.Generator, age: int) -> None:
        """Make one decision."""
        with naming_the_episode(self.simulator, self.name):
            row, _, status = self._go_on(*self._arguments(states, rng, policy_rng, age))
        if status != OK:
            raise describe_fault(status, self.simulator, self.name, age + row)

    def _arguments(
        self, states: np.ndarray, rng: np.random.Generator, policy_rng: np.random.Generator, age: int
    ) -> tuple[Any, ...]:
        streams, where = (rng, policy_rng), (0, 1, age)
        return states, self.simulator.parameters, self._actor_params, *streams, self.trajectory, self._scratch, *where

    def _stand(
        self, number: int, age: int, states: np.ndarray, rng: np.random.Generator, policy_rng: np.random.Generator
    ) -> None:
        before = dict(rng.bit_generator.state), dict(policy_rng.bit_generator.state)
        self.standing = StepSnapshot(number, age, states.tobytes(), *before)

    def as_python(self, seconds: float, compiled_helpers: bool) -> SimulatorError | None:
        """Make the decision in hand as ordinary Python; return what is wrong with it, with the user's line, or None.

        Args:
            seconds: that a function of the simulator may take, in the main thread.
            compiled_helpers: whether the compiled functions that the simulator's call stay compiled.
        """
        call = Calls(self.simulator, seconds, Hints(), compiled_helpers)
        call.episode, call.step = self.name, max(self.standing.age, 0)
        try:
            with np.errstate(all="ignore", divide="raise"):
                self._as_python(call)
        except SimulatorError as error:
            return error
        return None

    def _as_python(self, call: Calls) -> None:
        states = new_state(self.simulator)
        states[:] = np.frombuffer(self.standing.record, states.dtype)
        state, rng = states[0], generator_in(self.standing.rng)
        if self.standing.age < 0:
            call("reset", state, self.simulator.parameters, rng)
            call.action_features(state, call.action_mask(state))
            call.observe(state)
            return
        call.observe(state)
        call.action_features(state, call.action_mask(state))
        for name in ("time", "control_variate", "luck"):
            call.number(name, state)
        _, terminated = call.outcome(state, self._action(), rng)
        for name in ("time", "control_variate", "luck"):
            call.number(name, state)
        cut = call.truncated(state) or self.standing.age + 1 == self.simulator.max_steps
        call.step += 1
        call.observe(state)
        if not (terminated or cut):
            call.action_features(state, call.action_mask(state))

    def _action(self) -> Any:
        """Return what ``step`` received in the decision in hand."""
        space, drawn = self.simulator.action_space, self.trajectory.actions[0]
        if isinstance(space, Discrete):
            return int(drawn)
        if isinstance(space, Box):
            place = squash if space.squashed else clip
            return np.array([place(x, *bounds) for x, bounds in zip(drawn, space.bounds.T, strict=True)], np.float32)
        return drawn.copy()


def find_fault(retrace: FaultLocator, copies: Sequence[ReplayedInstance], patience: float) -> SimulatorError | None:
    """Play copies again until one fails, or does not come back from a decision.

    Args:
        retrace: of them.
        copies: in the order in which they failed.
        patience: seconds for a decision.

    Returns:
        What is wrong, with episode, step and the user's line; None if all is well this time. An endless loop goes on in
        a thread that nothing can stop: the process has to end by ``os._exit``.
    """
    retrace.compile()
    found: list[SimulatorError | None] = []
    thread = threading.Thread(target=lambda: found.append(retrace.play(copies)), daemon=True)
    thread.start()
    stands = None
    while thread.is_alive() and stands is not retrace.standing:
        stands = retrace.standing
        thread.join(patience)
    if found and found[0] is None:
        return None
    error = retrace.as_python(patience, compiled_helpers=bool(found))
    if error is not None:
        return error
    what = str(found[0]).rstrip(".") if found else f"compiled code did not come back within {patience:g} s"
    return SimulatorError(
        f"{type(retrace.simulator).__name__}, episode {retrace.name}, step {max(retrace.standing.age, 0)}: {what}; the "
        "same step as ordinary Python does not fail."
    )


def generator_in(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator in a state that was kept; a fresh one for none."""
    generator = np.random.Generator(np.random.PCG64(0))
    if state:
        generator.bit_generator.state = state
    return generator
