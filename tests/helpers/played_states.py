"""Episodes of evaluations as states and decisions, and small policies that are far from trivial."""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from longstride.policies.families.families import FAMILIES
from longstride.policies.make_spec import spec_for
from longstride.policies.spec_json import spec_to_json
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.checkpoint import FORMAT, seal


def some_policy(simulator: ProcessSimulator, family: str = "mlp", seed: int = 0) -> TrainedPolicy:
    """Return a policy with random parameters, whose choices depend on everything that it reads."""
    sizes = {"context_length": 5, "attention_heads": 2, "feed_forward_factor": 2}
    of_family = {name: sizes[name] for name in FAMILIES[family].settings}
    spec = spec_for(simulator, (8, 8), (8,), "tanh", FAMILIES[family], of_family)
    size = spec.layout.actor_size
    return TrainedPolicy(np.random.default_rng(seed).normal(0.0, 0.5, size).astype(np.float32), spec)


def decisions(simulator: ProcessSimulator, trained: TrainedPolicy) -> Iterator[tuple[Any, int]]:
    """Play an episode of an evaluation greedily; yield the state record before each decision, and the action."""
    actions = CompiledPlayer(simulator, trained.spec, 1).actions("trained", trained.actor_params, 0, 0)[:, 0]
    functions, states, rng = compile_functions(simulator), new_state(simulator), stream(0, "evaluation", 0)
    functions.reset(states[0], simulator.parameters, rng)
    for action in actions.tolist():
        yield states[0], action
        functions.step(states[0], simulator.parameters, action, rng)


def save_policy(directory: Path, simulator: ProcessSimulator, trained: TrainedPolicy, **more: object) -> Path:
    """Write the last checkpoint of a run with a policy, without training it; return its directory.

    Its metadata has ``more``.
    """
    folder, layout = directory / "checkpoints" / "last", trained.spec.layout
    folder.mkdir(parents=True)
    names = [name for name, offset in layout.offsets.items() if offset < layout.actor_size]
    shapes = {name: layout.shapes[name] for name in names}
    tensors = {
        f"model.{name}": trained.actor_params[layout.offsets[name] :][: math.prod(shape)].reshape(shape)
        for name, shape in shapes.items()
    }
    content = safetensors.numpy.save(tensors)
    source = {"simulator": "process", "scenario": scenario_content(simulator.scenario)}
    about = {
        "simulator": simulator.description(),
        "source": source,
        "policy": spec_to_json(trained.spec),
        "iteration": 7,
        **more,
    }
    digest = hashlib.sha256(content).hexdigest()
    (folder / "policy.safetensors").write_bytes(content)
    sealed = seal({"format": FORMAT, **about, "tensors": "policy.safetensors", "tensors_sha256": digest})
    (folder / "iteration-00000007.json").write_bytes(sealed)
    return directory
