"""The usual trainer's collection loop: a compiled simulator stepped from Python, the policy asked at each step.

The policy is torch's module, or the same network in ONNX Runtime with sampling in NumPy.
"""

import importlib.util
import time
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from longstride.policies.distributions import log_prob, masked_log_softmax
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic
from longstride.policies.parameter_layout import FEATURE_WEIGHTS
from longstride.rollout.trajectory import Trajectory, allocate
from longstride.seeding import stream
from longstride.simulators.simulator import Simulator, compile_functions, new_state

STEPS = 3_000
TOLERANCE = 1e-4
"""How far logits of ONNX Runtime may be from torch's."""


class Chooser(Protocol):
    """Chooses actions one at a time."""

    def choose(self, rows: Trajectory, k: int) -> tuple[int, float]:
        """Return an action for row k of a trajectory and its log-probability."""


class Torch:
    """Torch's module on one observation."""

    def __init__(self, model: ActorCritic) -> None:
        self.model = model

    def choose(self, rows: Trajectory, k: int) -> tuple[int, float]:
        """Return an action for row k of a trajectory and its log-probability."""
        mask = torch.from_numpy(rows.masks[k : k + 1])
        log_probabilities = masked_log_softmax(self.logits(rows, k, k + 1), mask)
        action = torch.multinomial(log_probabilities.exp(), 1)[0]
        return int(action.item()), log_prob(log_probabilities, action).item()

    @torch.no_grad()
    def logits(self, rows: Trajectory, begin: int, end: int) -> Tensor:
        """Return float32[end - begin, actions]."""
        features = torch.from_numpy(rows.features[begin:end])
        return self.model.logits(self.model.normalise(torch.from_numpy(rows.observations[begin:end])), features)


class Onnx:
    """ONNX Runtime on one observation, one thread."""

    def __init__(self, model: ActorCritic) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = onnx_model(model).SerializeToString()
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.rng = np.random.default_rng(0)

    def choose(self, rows: Trajectory, k: int) -> tuple[int, float]:
        """Return an action for row k of a trajectory and its log-probability."""
        logits = np.where(rows.masks[k], self.logits(rows, k, k + 1)[0], -np.inf)
        logits -= logits.max()
        sums = np.exp(logits).cumsum()
        action = int(sums.searchsorted(self.rng.random() * sums[-1], side="right"))
        return action, float(logits[action] - np.log(sums[-1]))

    def logits(self, rows: Trajectory, begin: int, end: int) -> np.ndarray:
        """Return float32[end - begin, actions]."""
        seen = {"observations": rows.observations[begin:end], "features": rows.features[begin:end]}
        found: np.ndarray = self.session.run(None, seen)[0]
        return found


def onnx_missing() -> str:
    """Return which package of ONNX is not here; empty if both are."""
    return next((name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None), "")


def onnx_model(model: ActorCritic) -> Any:
    """Return the actor of a relu model with action features as an ONNX model, weights included."""
    from onnx import TensorProto, helper, numpy_helper

    weights: dict[str, np.ndarray] = {name: t.detach().numpy() for name, t in model.tensors.items()}
    limit = np.float32(model.spec.observation_limit)
    weights |= {"low": -limit, "high": limit}
    nodes, seen = _normalisation(), "normalised"
    layers = len(model.layers("actor"))
    for i in range(layers):
        nodes.append(helper.make_node("Gemm", [seen, f"actor.{i}.weight", f"actor.{i}.bias"], [f"sum{i}"]))
        seen = f"sum{i}"
        if i < layers - 1:
            nodes.append(helper.make_node("Relu", [seen], [f"unit{i}"]))
            seen = f"unit{i}"
    nodes.append(helper.make_node("MatMul", ["features", FEATURE_WEIGHTS], ["weighed"]))
    nodes.append(helper.make_node("Add", [seen, "weighed"], ["logits"]))
    used = {name for node in nodes for name in node.input}
    constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items() if name in used]
    shapes = {
        "observations": ["B", model.spec.actor_sizes[0]],
        "features": ["B", model.spec.actor_sizes[-1], model.spec.action_features],
    }
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", model.spec.actor_sizes[-1]])]
    graph = helper.make_graph(nodes, "policy", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _normalisation() -> list[Any]:
    from onnx import helper

    return [
        helper.make_node("Sub", ["observations", "observation_mean"], ["shifted"]),
        helper.make_node("Mul", ["shifted", "observation_scale"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "low", "high"], ["normalised"]),
    ]


class Stepwise:
    """The first steps of an episode: observation, mask, features, action, step, storage.

    Args:
        simulator: with masks and action features.
        chooser: of actions.
    """

    def __init__(self, simulator: Simulator, chooser: Chooser) -> None:
        self.simulator, self.chooser = simulator, chooser
        self.functions, self.states = compile_functions(simulator), new_state(simulator)
        self.trajectory = allocate(spec_for(simulator, (), (), "tanh"), STEPS)

    @torch.no_grad()
    def run(self, seed: int) -> float:
        """Return seconds per decision, CPU time of this thread."""
        f, p, t = self.functions, self.simulator.parameters, self.trajectory
        rng, state = stream(seed, "simulator"), self.states[0]
        f.reset(state, p, rng)
        begin = time.thread_time()
        for k in range(STEPS):
            f.observe(state, p, t.observations[k])
            t.masks[k] = True
            f.action_mask(state, p, t.masks[k])
            t.features[k] = 0.0
            f.action_features(state, p, t.masks[k], t.features[k])
            t.actions[k], t.log_probs[k] = self.chooser.choose(t, k)
            t.rewards[k], t.terminated[k] = f.step(state, p, int(t.actions[k]), rng)
            t.truncated[k] = f.truncated(state, p)
        return (time.thread_time() - begin) / STEPS

    @torch.no_grad()
    def ask(self, _: int) -> float:
        """Return seconds per decision of the policy alone, on the rows that were played last."""
        begin = time.thread_time()
        for k in range(STEPS):
            self.chooser.choose(self.trajectory, k)
        return (time.thread_time() - begin) / STEPS


def largest_difference(ours: Torch, theirs: Onnx, rows: Trajectory) -> float:
    """Return by how much logits differ at most on all rows.

    Raises:
        ValueError: by more than :data:`TOLERANCE`.
    """
    found = float(np.abs(ours.logits(rows, 0, STEPS).numpy() - theirs.logits(rows, 0, STEPS)).max())
    if not found <= TOLERANCE:
        raise ValueError(f"The logits of ONNX Runtime differ by {found:.2g} from those of torch.")
    return found
