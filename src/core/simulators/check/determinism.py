"""Whether the same state, action and random stream give the same again, and if not, why."""

import dis
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.simulators.check.calls import Calls, changed_fields
from core.simulators.check.source_location import plain
from core.simulators.simulator import new_state

_REPETITIONS = 23  # enough to see that a mask of one bit is drawn; prime, so that a count of calls is not taken for it

Seen = dict[str, bytes]
"""What can be seen of a decision, by the function that says it."""


@dataclass
class Decision:
    """A decision that was played, and what it takes to play it again.

    Attributes:
        episode: number of the episode.
        step: number of the decision in it.
        before: bytes of the state record, or b"" where they were not kept.
        rng: state of the bit generator before the step.
        action: that was taken.
        seen: of the decision.
        after: hash of the state record's bytes after the step.
    """

    episode: int
    step: int
    before: bytes
    rng: Any
    action: Any
    seen: Seen = field(default_factory=dict)
    after: int = 0


def require_repeatable(call: Calls, function: str, again: Callable[[], bytes], first: bytes | None = None) -> None:
    """Require a function to give the same for the same arguments.

    Args:
        call: the simulator.
        function: name of the function.
        again: calls it with fresh copies of the same arguments and returns all that it did.
        first: what it did before, if it was called before.

    Raises:
        SimulatorError: it does not.
    """
    if again() != (again() if first is None else first):
        call.fail(f"{function} gave another result for the same arguments: {_reason(call, again)}", function)


def restored(call: Calls, decision: Decision) -> tuple[Any, np.random.Generator]:
    """Return copies of the record and the generator as a decision found them."""
    state = np.frombuffer(decision.before, np.dtype(call.simulator.state_dtype)).copy().view(np.recarray)[0]
    generator = np.random.PCG64()
    generator.state = decision.rng
    return state, np.random.Generator(generator)


def look(call: Calls, state: Any) -> tuple[Seen, np.ndarray, np.ndarray]:
    """Return what a policy sees of a state: as bytes by function, the observation, and the mask."""
    observation, mask = call.observe(state), call.action_mask(state)
    features = call.action_features(state, mask)
    seen = {"observe": observation.tobytes(), "action_mask": mask.tobytes(), "action_features": features.tobytes()}
    return seen, observation, mask


def after_step(call: Calls, state: Any, reward: float, terminated: bool) -> Seen:
    """Return what can be seen after a step, by function."""
    numbers = {name: np.float64(call.number(name, state)).tobytes() for name in ("time", "control_variate", "luck")}
    step = np.float64(reward).tobytes() + bytes([terminated])
    return {"step": step, "truncated": bytes([call.truncated(state)]), **numbers}


def replay(call: Calls, states: np.ndarray, rng: np.random.Generator, decisions: list[Decision]) -> str:
    """Play an episode again with the same actions.

    Args:
        call: the simulator.
        states: the state record to begin with.
        rng: the episode's random stream.
        decisions: of the episode.

    Returns:
        The function that first gives something else, or an empty text.
    """
    call("reset", states[0], call.simulator.parameters, rng)
    for decision in decisions:
        call.step = decision.step
        seen, _, _ = look(call, states[0])
        if differs := _differing(seen, decision.seen):
            return differs
        outcome = call.outcome(states[0], _copy(decision.action), rng)
        if differs := _differing(after_step(call, states[0], *outcome), decision.seen):
            return differs
    return ""


def resume(call: Calls, decision: Decision) -> str:
    """Play one decision again from a copy of its state; return the function that gives something else, or ""."""
    call.episode, call.step = decision.episode, decision.step
    state, rng = restored(call, decision)
    if differs := _differing(look(call, state)[0], decision.seen):
        return differs
    outcome = call.outcome(state, _copy(decision.action), rng)
    if hash(state.tobytes()) != decision.after:
        return "step"
    return _differing(after_step(call, state, *outcome), decision.seen)


def fail_for_leftovers(call: Calls, left: np.ndarray, new_rng: Callable[[], np.random.Generator]) -> None:
    """Raise the error that names the fields which reset leaves as they were."""
    call.step = 0
    one, other = left.copy(), new_state(call.simulator)
    for states in (one, other):
        call("reset", states[0], call.simulator.parameters, new_rng())
    fields = changed_fields(one[0], other[0])
    call.fail(f"reset leaves {fields} as the episode before left it, and it matters; set it in reset", "reset")


def fail_for_memory(call: Calls, function: str) -> None:
    """Raise the error that a function remembers something outside the record."""
    call.fail(
        f"{function} gave something else when the same state was played again: {_outside(call)}",
        function,
    )


def _copy(action: Any) -> Any:
    return action.copy() if isinstance(action, np.ndarray) else action


def _differing(seen: Seen, before: Seen) -> str:
    return next((name for name, value in seen.items() if before[name] != value), "")


def _reason(call: Calls, again: Callable[[], bytes]) -> str:
    """Say why a call is not repeatable: seed the global generators and see whether that helps."""
    kept = np.random.get_state(), random.getstate()
    sequences = []
    for _ in range(2):
        np.random.seed(1)
        random.seed(1)
        sequences.append([again() for _ in range(_REPETITIONS)])
    np.random.set_state(kept[0])
    random.setstate(kept[1])
    if sequences[0] == sequences[1] and len(set(sequences[0])) > 1:
        return "it draws from np.random or random; draw every random number from rng"
    return _outside(call)


def _outside(call: Calls) -> str:
    """Say that something outside the record matters, with the names that are suspicious."""
    names = sorted({name for function in call.functions.values() for name in _suspects(plain(function))})
    suspicion = f" ({', '.join(names)}?)" if names else ""
    return f"something outside the state record matters{suspicion}; keep all that changes in the record"


def _suspects(function: Any) -> set[str]:
    """Return names that a function sets outside itself, and the mutable things that it uses."""
    stores = {i.argval for i in dis.get_instructions(function) if i.opname in ("STORE_GLOBAL", "STORE_DEREF")}
    outside = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        outside[name] = cell.cell_contents
    mutable = (list, dict, set, bytearray, np.ndarray, np.random.Generator, random.Random, type)
    owner = {name for name, value in outside.items() if isinstance(value, mutable) and not _harmless(value)}
    return stores | owner


def _harmless(value: Any) -> bool:
    """Whether a value is a class of somebody else's, such as int or np.float64, or an array that cannot change."""
    if isinstance(value, type):
        return value.__module__.split(".")[0] in ("builtins", "numpy", "math", "numba")
    return isinstance(value, np.ndarray) and not value.flags.writeable
