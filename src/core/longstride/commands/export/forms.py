"""The forms of a policy that are compared: torch, compiled by Numba, ONNX Runtime, C."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from longstride.commands.export.steps import Play, Steps, episodes_of
from longstride.errors import UserError
from longstride.policies.compiled.forward import align_params, new_policy_states, workspace
from longstride.policies.compiled.outputs import build_outputs
from longstride.policies.compiled.sampling import row_of
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box

C_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic")
"""Options with which the C file compiles without a warning."""

_SECONDS = 300
"""Most that a C compiler may take: a policy of a million parameters takes some seconds."""


def play_torch(spec: PolicySpec, params: np.ndarray, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """Play by the network that was trained, all steps at once; actions by NumPy."""
    import torch

    from longstride.policies.memory import Memory
    from longstride.policies.networks import ActorCritic

    model = ActorCritic(spec)
    model.flat[: len(params)] = torch.from_numpy(np.ascontiguousarray(params))
    features = torch.from_numpy(steps.features) if spec.action_features else None
    memory = None
    if spec.state_size:
        start = torch.zeros(1, spec.state_size)
        memory = Memory(start, torch.from_numpy(steps.begins.reshape(-1, 1)))
    with torch.no_grad():
        x = model.normalise(torch.from_numpy(np.ascontiguousarray(steps.observations)))
        outputs = np.asarray(model.logits(x, features, memory=memory))
    return outputs, _actions(spec, outputs, steps.masks)


def _actions(spec: PolicySpec, outputs: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Return the greedy actions, float64[T, n]."""
    space = spec.action_space
    if isinstance(space, Box):
        drawn = outputs.astype(np.float64)
        numbers = space.centre + space.scales * (np.tanh(drawn) if space.squashed else drawn)
        return np.asarray(np.clip(numbers, *space.bounds), np.float64)
    allowed = np.where(masks, outputs, -np.inf)
    parts = np.split(allowed, np.cumsum(space.choices)[:-1], axis=1)
    return np.stack([part.argmax(axis=1) for part in parts], axis=1).astype(np.float64)


def play_compiled(spec: PolicySpec, params: np.ndarray, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """Play by the compiled policy, as simulations and ``load_policy`` do."""
    count = len(steps.observations)
    outputs = np.zeros((count, spec.action_space.outputs), np.float32)
    actions = np.zeros((count, row_of(spec.action_space)[0]))
    scratch = new_policy_states(spec, 1)[0], workspace(spec)
    arrays = (np.ascontiguousarray(array) for array in steps)
    build_outputs(spec)(align_params(params, spec), *arrays, *scratch, outputs, actions)
    return outputs, actions


def onnx_form(path: Path, contract: dict[str, Any]) -> Play:
    """Return an ONNX model in ONNX Runtime: all steps as one batch, with memory step after step.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each["name"] for each in contract["inputs"]]
    state_size = next((each["shape"][1] for each in contract["inputs"] if each["name"] == "state"), 0)

    def run(steps: Steps, rows: slice, state: np.ndarray) -> list[np.ndarray]:
        known = {"mask": steps.masks, "features": steps.features, "observation": steps.observations}
        given = {name: known[name][rows] for name in names if name != "state"}
        return list(session.run(None, {**given, "state": state} if state_size else given))

    def play(steps: Steps) -> tuple[np.ndarray, np.ndarray]:
        if not state_size:
            actions, outputs = run(steps, slice(None), np.zeros(0))
            return outputs, actions.reshape(len(outputs), -1).astype(np.float64)
        rows: list[np.ndarray] = []
        chosen: list[np.ndarray] = []
        for episode in episodes_of(steps):
            state = np.zeros((1, state_size), np.float32)
            for t in range(episode.start, episode.stop):
                action, output, state = run(steps, slice(t, t + 1), state)
                rows.append(output[0])
                chosen.append(np.reshape(action, -1))
        return np.array(rows), np.array(chosen, np.float64)

    return play


def c_compiler() -> str | None:
    """Return the C compiler of this machine: ``CC``, or what is called cc, gcc or clang; None without one."""
    named = os.environ.get("CC")
    return next(filter(None, map(shutil.which, [named] if named else ["cc", "gcc", "clang"])), None)


def c_form(source: Path, compiler: str, folder: Path, spec: PolicySpec) -> Play:
    """Return a C file, compiled into a folder and loaded.

    Raises:
        UserError: the compiler refuses it.
    """
    library = folder / "policy.so"
    command = [compiler, *C_FLAGS, "-shared", "-fPIC", "-o", str(library), str(source)]
    try:
        built = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        problem = built.stderr.strip().partition("\n")[0] if built.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise UserError(f"{compiler} does not compile {source}: {problem:.200}; set CC to another C compiler.")
    try:
        functions = ctypes.CDLL(str(library))
    except OSError as error:
        raise UserError(
            f"What {compiler} compiles cannot be loaded: {error}; set CC to a compiler for this machine."
        ) from None
    is_box = isinstance(spec.action_space, Box)
    action_dtype = np.float32 if is_box else np.int32

    def play(steps: Steps) -> tuple[np.ndarray, np.ndarray]:
        count, state = len(steps.observations), np.zeros(max(1, spec.state_size), np.float32)
        observations, masks, features = (np.ascontiguousarray(array) for array in steps[:3])
        outputs = np.zeros((count, spec.action_space.outputs), np.float32)
        actions = np.zeros((count, row_of(spec.action_space)[0]), action_dtype)
        for t in range(count):
            if steps.begins[t]:
                state[:] = 0.0
            before = state.copy()
            inputs = [observations[t], masks[t] if masks.size else None, features[t] if features.size else None]
            _call(functions.policy_step, *inputs, before, outputs[t])
            _call(functions.policy_act, *inputs, state, actions[t])
        return outputs, actions.astype(np.float64)

    return play


def _call(function: Any, *arrays: np.ndarray | None) -> None:
    """Call a function of the C file; the arrays are contiguous."""
    status = function(*(None if array is None else ctypes.c_void_p(array.ctypes.data) for array in arrays))
    if status:
        raise UserError(f"policy.c refused a step with code {status}, although its numbers are finite.")
