"""Whole updates on the fake card, from upload to report, beside the same on the CPU."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from helpers.random_rollouts import SPACES, random_rollout
from helpers.recorded_graphs import RecordedGraphs
from helpers.specs import mlp_spec
from helpers.toy_runs import rollout_batch, toy_algorithm, toy_coefficients, toy_settings

import longstride.learning.step_selection.executor as executor
from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.device_transfer import host_allocator
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import Updater
from longstride.policies.families.mingru.family import MINGRU
from longstride.policies.networks import ActorCritic, initialise
from longstride.rollout.trajectory import Trajectory, allocate
from longstride.simulators.spaces import Discrete


def watched(loss_of):
    """Return a function that writes down the number formats of a loss, its terms, and what it is computed from."""

    def loss(*arguments, **others):
        found = loss_of(*arguments, **others)
        tensors = {"total": found.total, **found.terms._asdict()}
        tensors.update({f"output{k}": each for k, each in enumerate(found.outputs)})
        tensors.update({f"slope{k}": each for k, each in enumerate(found.slopes)})
        FORMATS.update(f"{name} {tensor.dtype}" for name, tensor in tensors.items())
        return found

    return loss


FORMATS: set[str] = set()
PRECISIONS = "fp32", "bf16", "fp16"
WAYS: dict[str, dict[str, Any]] = {
    "": {},
    " in microbatches": {"microbatch": 48},
    " captured": {"executions": ("graph",)},
}
CASES = {
    **{
        f"{space} {precision}{way}": (space, {"precision": precision, **changes})
        for space in SPACES
        for precision in PRECISIONS
        for way, changes in WAYS.items()
    },
    "squashed bf16 captured in microbatches": (
        "squashed",
        {"precision": "bf16", "microbatch": 48, "executions": ("graph",)},
    ),
    "discrete fp32 with checkpointing": ("discrete", {"precision": "fp32", "checkpointing": True}),
    "discrete fp32 with a KL limit": ("discrete", {"precision": "fp32", "target_kl": 1e9}),
    "discrete fp32 with noise": ("discrete", {"precision": "fp32", "measure_noise": True}),
    "groups of 2": ("discrete", {"precision": "bf16", "group_size": 2}),
    **{f"memory {precision}": ("memory", {"precision": precision}) for precision in PRECISIONS},
    "memory bf16 captured": ("memory", {"precision": "bf16", "executions": ("graph",)}),
    "memory fp32 in microbatches": ("memory", {"precision": "fp32", "microbatch": 128, "batch_size": 512}),
    "penalised": ("discrete", {"precision": "bf16", "kl_coefficient": 0.1}),
    **{f"desk {precision}": ("desk", {"precision": precision}) for precision in PRECISIONS},
}
"""Space (or the sizes of the loan desk) and settings by name."""

SAMPLES, BATCH, EPOCHS = 250, 128, 2


def run_cases(card_class: type) -> dict[str, Any]:
    """Return what each case did on the card, and how far its parameters are from those of the CPU."""
    results = {}
    for name, (space, changes) in CASES.items():
        model, trajectories = problem(space)
        on_cpu, _ = updated(model, trajectories, "cpu", {**changes, "executions": ("eager",)}, None)
        with card_class() as card:
            on_card, seen = updated(model, trajectories, "cuda", changes, card)
        difference = (on_cpu.flat - on_card.flat).detach().abs().max()
        moved = (on_card.flat - model.flat).detach().abs().max()
        results[name] = {**seen, "difference": float(difference), "moved": float(moved)}
    return results


def problem(space: str) -> tuple[ActorCritic, list[Trajectory]]:
    """Return a model and two trajectories of random numbers."""
    desk = mlp_spec((151, 128, 128, 128, 62), (151, 256, 256, 256, 1), space=Discrete(62), action_features=5)
    remembers = space == "memory"
    small = None if space == "desk" else SPACES["choices" if remembers else space]
    features = 2 if space == "discrete" else 0
    spec = desk if small is None else mlp_spec((6, 16, 24, small.outputs), (6, 20, 1), "tanh", small, features)
    if remembers:
        spec = replace(spec, actor_hidden=(24, 24), critic_hidden=(20,), family=MINGRU)
    model = ActorCritic(spec)
    initialise(model, "orthogonal", torch.Generator().manual_seed(1))
    samples, rng = random_rollout(model, SAMPLES), np.random.default_rng(2)
    trajectories = []
    for begin, end in ((0, 150), (150, SAMPLES)):
        trajectory = allocate(spec, end - begin)
        trajectory.states[:], trajectory.begins[:] = 0.0, False
        trajectory.begins[::70] = True
        for column in ("actions", "log_probs", "masks", "features"):
            target, source = getattr(trajectory, column), getattr(samples, column)[begin:end].numpy()
            target[:] = source.reshape(target.shape)
        trajectory.observations[:-1] = samples.observations[begin:end].numpy()
        trajectory.observations[-1] = 0.0
        trajectory.rewards[:], trajectory.elapsed[:] = rng.normal(size=end - begin), 1.0
        trajectory.terminated[:] = trajectory.truncated[:] = False
        trajectory.control_variate[:] = 0.0
        trajectory.terminated[-1] = True
        trajectory.terminated[69:-1:70] = remembers
        trajectories.append(trajectory)
    return model, trajectories


def pinned(trajectory):
    """Return a copy of a trajectory in the memory in which one is collected for a card."""
    new = host_allocator(pinned=True)
    copies = [new(column.shape, column.dtype) for column in trajectory]
    for copy, column in zip(copies, trajectory, strict=True):
        copy[...] = column
    return Trajectory(*copies)


def updated(model, trajectories, device, changes, card):
    """Return a copy of the model after an update, and what the update did; ``card`` is that of the device."""
    copy = ActorCritic(model.spec, pinned=card is not None)
    with torch.no_grad():
        copy.flat.copy_(model.flat)
    if card is not None:
        trajectories = [pinned(each) for each in trajectories]
    settings = toy_settings(UpdateSettings, epochs=EPOCHS, **{"batch_size": BATCH, "microbatch": 512, **changes})
    executor.CudaGraphs = lambda device: RecordedGraphs()
    coefficients, group = toy_algorithm().coefficients, changes.get("group_size")
    algorithm = Grpo(group, coefficients) if group else Ppo(0.9, coefficients)
    updater = Updater(copy, torch.device(device), algorithm, settings)
    updater.stepper.loss_of = watched(updater.stepper.loss_of)
    updater.stepper._slopes_of = watched(updater.stepper._slopes_of)
    phases, seen = {}, {}
    FORMATS.clear()
    if card is not None:
        watch(updater, card, phases)
    rollout = rollout_batch(trajectories, [np.full(t.steps, 0.97) for t in trajectories])
    for seed in (0, 1):  # of the second one the traffic is kept: nothing is made for the first time
        report = updater.update(rollout, toy_coefficients(), np.random.default_rng(seed))
    seen |= {"formats": sorted(FORMATS), "report": report.as_dict(), "phases": phases}
    return copy, seen


def watch(updater, card, phases):
    """Write down the traffic of an update's phases."""
    prepare, epochs = updater._prepare, updater._epochs

    def watched_prepare(*arguments):
        card.look()
        result = prepare(*arguments)
        phases["prepare"] = vars(card.look())
        return result

    def watched_epochs(*arguments):
        card.look()
        result = epochs(*arguments)
        phases["epochs"] = vars(card.look())
        return result

    updater._prepare, updater._epochs = watched_prepare, watched_epochs
