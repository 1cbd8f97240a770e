"""Policies of each family and action space, with masks and action features, and the files that they are exported to."""

from dataclasses import replace
from functools import cache

from helpers.memory_models import memory_model, memory_spec
from helpers.toy_runs import actor_weights, toy_model
from helpers.transformer_models import transformer_spec

from longstride.commands.export.steps import random_steps
from longstride.policies.export.c_source import c_files
from longstride.policies.export.contract import contract_of
from longstride.policies.export.labels import Labels
from longstride.policies.spec_json import spec_to_json
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete
from longstride.training.run_directory.checkpoint import save_checkpoint

REMEMBERING = {
    "remembering shop": memory_spec(4, Discrete(4), features=2),
    "remembering choices": memory_spec(9, MultiDiscrete([3, 2, 4]), (24, 24), activation="relu", features=3),
    "attending": transformer_spec(7, Discrete(4), features=2, activation="relu", attention=(6, 2, 2)),
    "remembering squashed": memory_spec(3, Box([-1.5, -2.0], [1.5, 1.0], squashed=True)),
}
POLICIES = ("shop", "choices", "tracker", "squashed", *REMEMBERING)
"""Discrete with masks and features, several choices with masks, clipped and squashed numbers; with memory the choices
have features, too."""


@cache
def model_of(name):
    model = memory_model(REMEMBERING[name]) if name in REMEMBERING else toy_model(name)
    model.spec = replace(model.spec, observation_limit=1.25)  # which many of the random steps exceed
    return model


@cache
def exported(name):
    """Return spec, actor parameters and contract of a policy."""
    model = model_of(name)
    spec, params = model.spec, actor_weights(model)
    return spec, params, contract_of(spec, params, Labels(), {})


@cache
def steps_of(name, count=200):
    """Return random steps of a policy: episodes of 64 steps, the last one shorter."""
    spec, params, _ = exported(name)
    return random_steps(spec, params, count, 0)


def write_c(name, folder):
    """Write policy.c and policy.h into a folder; return the path of the first."""
    spec, params, _ = exported(name)
    files = c_files(spec, params, Labels(), "A toy.")
    (folder / "policy.h").write_text(files.header)
    (folder / "policy.c").write_text(files.source)
    return folder / "policy.c"


def save_run(directory, model, source, description, **facts):
    """Write the last checkpoint of a run with a model, without training it."""
    metadata = {"simulator": description, "source": source, "policy": spec_to_json(model.spec)}
    more = {"iteration": 7, "best": 0.0, "grad_scaler": None}
    tensors = {f"model.{name}": tensor for name, tensor in model.tensors.items()}
    (directory / "checkpoints").mkdir(parents=True)
    save_checkpoint(directory / "checkpoints" / "last", tensors, {**metadata, **more, **facts})
    return directory
