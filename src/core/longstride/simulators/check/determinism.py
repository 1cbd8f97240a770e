"""Whether the same state, action and random stream give the same results again, and if not, why."""

import dis
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longstride.simulators.check.calls import Calls, changed_fields
from longstride.simulators.check.source_location import plain
from longstride.simulators.simulator import new_state

_REPETITIONS = 23  # enough to see that a mask of one bit is drawn; prime, so that a count of calls is not taken for it

Outputs = dict[str, bytes]
"""Bytes of what each function returned or wrote."""


@dataclass
class PlayedStep:
    """An environment step, with what it takes to play it again."""

    episode: int  # number of the episode
    step: int  # number of the step in the episode
    before: bytes  # bytes of the state record before the step, or b"" if they were not kept
    rng: Any  # state of the bit generator before the step
    action: Any  # action of the step
    outputs: Outputs = field(default_factory=dict)  # outputs of the functions before and after the step
    after: int = 0  # hash of the state record's bytes after the step


def require_repeatable(call: Calls, function: str, repeat: Callable[[], bytes], first: bytes | None = None) -> None:
    """Raise a SimulatorError unless a function gives the same results for the same arguments.

    ``repeat`` calls it with fresh copies of the same arguments; ``first`` are the results of an earlier call, if any.
    """
    if repeat() != (repeat() if first is None else first):
        call.fail(f"{function} gave another result for the same arguments: {_reason(call, repeat)}", function)


def restored(call: Calls, played: PlayedStep) -> tuple[Any, np.random.Generator]:
    """Return copies of the state record and the generator as they were before a step."""
    state = np.frombuffer(played.before, np.dtype(call.simulator.state_dtype)).copy().view(np.recarray)[0]
    generator = np.random.PCG64()
    generator.state = played.rng
    return state, np.random.Generator(generator)


def observe_state(call: Calls, state: Any) -> tuple[Outputs, np.ndarray, np.ndarray]:
    """Return the outputs of a state, its observation float32[observation_size] and its mask bool[n]."""
    observation, mask = call.observe(state), call.action_mask(state)
    features = call.action_features(state, mask)
    outputs = {"observe": observation.tobytes(), "action_mask": mask.tobytes(), "action_features": features.tobytes()}
    return outputs, observation, mask


def step_outputs(call: Calls, state: Any, reward: float, terminated: bool) -> Outputs:
    """Return the outputs after a step, from its new state and what ``step`` returned."""
    numbers = {name: np.float64(value).tobytes() for name, value in call.clocks(state).items()}
    step = np.float64(reward).tobytes() + bytes([terminated])
    return {"step": step, "truncated": bytes([call.truncated(state)]), **numbers}


def replay(call: Calls, states: np.ndarray, rng: np.random.Generator, steps: Sequence[PlayedStep]) -> str:
    """Play an episode again with the same actions; return the name of the first function with other outputs, or "".

    ``states`` is ``state_dtype``[1], a record that ``reset`` fills; ``rng`` is the random stream of the episode.
    """
    call("reset", states[0], call.simulator.parameters, rng)
    return next((differing for played in steps if (differing := _repeat(call, states[0], rng, played))), "")


def resume(call: Calls, played: PlayedStep) -> str:
    """Play one step again from a copy of its state; return the name of the function with other outputs, or ""."""
    return _repeat(call, *restored(call, played), played, played.after)


def _repeat(call: Calls, state: Any, rng: np.random.Generator, played: PlayedStep, after: int | None = None) -> str:
    """Make a step again; return the name of the first function with other outputs, or "".

    ``after`` is the hash of the state that ``step`` has to leave behind, if it has to.
    """
    call.episode, call.step = played.episode, played.step
    if differing := _differing(observe_state(call, state)[0], played.outputs):
        return differing
    outcome = call.outcome(state, played.action, rng)
    if after is not None and hash(state.tobytes()) != after:
        return "step"
    return _differing(step_outputs(call, state, *outcome), played.outputs)


def _differing(outputs: Outputs, before: Outputs) -> str:
    return next((name for name, value in outputs.items() if before[name] != value), "")


def fail_for_leftovers(call: Calls, left: np.ndarray, new_rng: Callable[[], np.random.Generator]) -> None:
    """Raise a SimulatorError that names the fields which reset does not set.

    ``left`` is ``state_dtype``[1], the state that an episode left behind; ``new_rng`` is for the next one.
    """
    call.step = 0
    one, other = left.copy(), new_state(call.simulator)
    for states in (one, other):
        call("reset", states[0], call.simulator.parameters, new_rng())
    fields = changed_fields(one[0], other[0])
    call.fail(f"reset leaves {fields} as the episode before left it, and it matters; set it in reset", "reset")


def fail_for_memory(call: Calls, function: str) -> None:
    """Raise a SimulatorError that a function keeps something outside the state record."""
    call.fail(f"{function} gave something else when the same state was played again: {_outside(call)}", function)


def _reason(call: Calls, repeat: Callable[[], bytes]) -> str:
    """Return why a call is not repeatable: seed the global generators and compare."""
    kept = np.random.get_state(), random.getstate()
    sequences = []
    for _ in range(2):
        np.random.seed(1)
        random.seed(1)
        sequences.append([repeat() for _ in range(_REPETITIONS)])
    np.random.set_state(kept[0])
    random.setstate(kept[1])
    if sequences[0] == sequences[1] and len(set(sequences[0])) > 1:
        return "it draws from np.random or random; draw every random number from rng"
    return _outside(call)


def _outside(call: Calls) -> str:
    """Return the clause that something outside the record matters, with the suspicious names."""
    names = sorted({name for function in call.functions.values() for name in _suspects(plain(function))})
    suspicion = f" ({', '.join(names)}?)" if names else ""
    return f"something outside the state record matters{suspicion}; keep all that changes in the record"


def _suspects(function: Any) -> set[str]:
    """Return the names that a function sets outside itself, and the mutable things that it uses."""
    stores = {i.argval for i in dis.get_instructions(function) if i.opname in ("STORE_GLOBAL", "STORE_DEREF")}
    outside = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        outside[name] = cell.cell_contents
    mutable = (list, dict, set, bytearray, np.ndarray, np.random.Generator, random.Random, type)
    return stores | {n for n, value in outside.items() if isinstance(value, mutable) and not _is_harmless(value)}


def _is_harmless(value: Any) -> bool:
    """Return whether a value is a library's class, such as int or np.float64, or an array that cannot change."""
    if isinstance(value, type):
        return value.__module__.split(".")[0] in ("builtins", "numpy", "math", "numba")
    return isinstance(value, np.ndarray) and not value.flags.writeable
