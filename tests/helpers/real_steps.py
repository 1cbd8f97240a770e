"""A step or an update with everything that is there before it, to count what it adds."""

from dataclasses import replace

import numpy as np
import torch
from helpers.specs import mlp_spec
from helpers.toy_runs import (
    HIDDEN,
    discounts_of,
    rollout_batch,
    toy_coefficients,
    toy_episodes,
    toy_stepper,
    toy_updater,
)
from oracles.toy_simulators import Shop

from longstride.learning.algorithms.interface import Samples
from longstride.learning.device_transfer import ModelTransfer
from longstride.learning.step_costs.update_memory import estimate_memory
from longstride.policies.networks import ActorCritic, initialise


def rollout_of(shape, samples, device="cpu"):
    """Return a rollout of random samples, all actions allowed."""
    space, values = shape.action_space, sum(shape.action_space.choices)
    columns = {
        "observations": torch.randn(samples, shape.actor_sizes[0]),
        "actions": torch.zeros(samples, *space.shape, dtype=torch.int64 if space.choices else torch.float32),
        "log_probs": torch.full((samples,), -1.0),
        "masks": torch.ones(samples, values, dtype=torch.bool),
        "features": torch.zeros(samples, values, shape.action_features),
        "advantages": torch.randn(samples),
        "returns": torch.randn(samples),
    }
    return Samples(**columns, values=torch.zeros(samples)).map(lambda column: column.to(device))


def prepared_step(
    shape, precision, samples, microbatch, activation="relu", device="cpu", checkpointing=False, on_card=False
):
    """Return a stepper that has taken a step, and what its next one needs: rollout, indices and weights.

    With ``on_card`` it steps as on a GPU, on the CPU too.
    """
    model = ActorCritic(replace(shape, activation=activation), on_card=on_card)
    initialise(model, "xavier_uniform", torch.Generator().manual_seed(0))
    if device != "cpu":
        host, model = model, ActorCritic(replace(shape, activation=activation), device, on_card=True)
        ModelTransfer(host, model).to_device()
    stepper = toy_stepper(model, microbatch=microbatch, precision=precision, checkpointing=checkpointing)
    rollout = rollout_of(model.spec, samples, device)
    indices = torch.arange(samples, device=device)
    weights = torch.full((samples,), 1 / samples, device=device)
    stepper.step(rollout, indices, weights)
    return stepper, rollout, indices, weights


def prepared_update(width, device="cpu"):
    """Return an updater with a critic of some width that has something to go back to, what it updates from, and its
    predicted bytes."""
    model = ActorCritic(shape_of_update(width, "relu"))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    episodes = toy_episodes("shop", model, 4)
    played = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes)), toy_coefficients()
    updater = toy_updater(model, device, microbatch=64, epochs=1, batch_size=128)
    for seed in range(2):
        updater.update(*played, np.random.default_rng(seed))
    samples = played[0].steps
    shape, on_card = shape_of_update(width), device == "cuda"
    return updater, played, estimate_memory(shape, False, samples, 128, 64, pieces=4, on_card=on_card)


def shape_of_update(width, *activation):
    """Return the policy of :func:`prepared_update`."""
    shop = Shop()
    sizes = (shop.observation_size, *HIDDEN, shop.action_space.outputs), (shop.observation_size, width, width, 1)
    return mlp_spec(*sizes, *activation, space=shop.action_space, action_features=shop.action_feature_size)


def optimizer_moments(stepper):
    """Return the tensors of Adam's state that are as large as the parameters."""
    return [tensor for tensor in stepper._state() if tensor.dim() > 0]


def last_gradient(stepper):
    """Return the flat tensor that holds the gradient of the last step."""
    flat = next(iter(stepper.optimizer._parts.values()))
    return flat.grad._base


def bytes_of(tensors):
    """Return the bytes of tensors that share no memory."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
