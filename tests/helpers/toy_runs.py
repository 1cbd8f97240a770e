"""Models, collectors and updaters for the toy simulators, built once where building compiles."""

from functools import cache

import numpy as np
import torch
from helpers.specs import actor_spec, mlp_spec
from oracles.toy_simulators import Bandit, Choices, Faulty, Shop, Squashed, Tracker
from torch import nn

from longstride.learning.advantages import step_discounts
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.interface import UpdateSettings, by_name
from longstride.learning.steps.torch_step import TorchStepper
from longstride.learning.updater import Updater, UpdateReport
from longstride.policies.networks import ActorCritic, initialise
from longstride.rollout.collector import InstanceTrajectory, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.simulator import Simulator

torch.set_num_threads(1)  # as a run on the CPU does; the toys' tensors are too small for more

KINDS = {
    "shop": (Shop, "relu"),
    "bandit": (Bandit, "tanh"),
    "faulty": (Faulty, "relu"),
    "choices": (Choices, "relu"),
    "tracker": (Tracker, "tanh"),
    "squashed": (Squashed, "relu"),
}
HIDDEN, CRITIC_HIDDEN, SEED, PARALLEL = (16, 16), (24,), 7, 8
BANDIT_NETWORK = [
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "2", "--activation", "tanh"),
]
"""Flags of trainings on the bandit, with which they share their compiled loops."""


def new_model(simulator: Simulator, activation: str, seed: int = 0, device: str = "cpu") -> ActorCritic:
    """Return a model of the toys' sizes whose policy and normalisation are far from trivial."""
    space = simulator.action_space
    actor = (simulator.observation_size, *HIDDEN, space.outputs)
    critic, features = (simulator.observation_size, *CRITIC_HIDDEN, 1), simulator.action_feature_size
    model = ActorCritic(mlp_spec(actor, critic, activation, space=space, action_features=features))
    generator = torch.Generator().manual_seed(seed)
    initialise(model, "orthogonal", generator)
    with torch.no_grad():
        model.layers("actor")[-1][0].mul_(100.0)  # the gain of the head from 0.01 to 1
        for part in ("actor", "critic"):
            for _, bias in model.layers(part):
                bias.copy_(0.2 * torch.randn(bias.shape, generator=generator))
        model.log_std.copy_(-0.3 + 0.5 * torch.randn(model.log_std.shape, generator=generator))
        model.tensors["observation_mean"].copy_(0.3 * torch.randn(simulator.observation_size, generator=generator))
        model.tensors["observation_scale"].uniform_(0.5, 2.0, generator=generator)
        nn.init.orthogonal_(model.layers("critic")[-1][0].T, generator=generator)  # from 0
        if features:
            model.tensors["actor.feature_weights"].copy_(torch.randn(features, generator=generator))
    return model.to(device)


def toy_model(kind: str, seed: int = 0) -> ActorCritic:
    """Return :func:`new_model` for a toy."""
    simulator, activation = KINDS[kind]
    return new_model(simulator(), activation, seed)


def toy_collector(kind: str) -> EpisodeCollector:
    """Return a toy's collector, compiled once a session, with the parameters that it had at first."""
    collector, parameters = _collector_and_parameters(kind)
    collector.simulator.parameters = parameters
    return collector


@cache
def _collector_and_parameters(kind: str) -> tuple[EpisodeCollector, object]:
    simulator, activation = KINDS[kind]
    toy = simulator()
    sizes = (toy.observation_size, *HIDDEN, toy.action_space.outputs)
    return EpisodeCollector(toy, actor_spec(toy, sizes, activation), RolloutPlan(SEED, PARALLEL)), toy.parameters


def actor_weights(model: ActorCritic) -> np.ndarray:
    """Return the CPU copy of a model."""
    return model.flat[: model.layout.actor_size].numpy()


def toy_episodes(kind: str, model: ActorCritic, count: int, first: int = 0) -> list[InstanceTrajectory]:
    """Collect some episodes; their arrays are overwritten by the next call."""
    return toy_collector(kind).collect(actor_weights(model), first, count)[0]


def discounts_of(episodes: list[InstanceTrajectory], gamma: float = 0.97) -> list[np.ndarray]:
    """Return discounts by decision."""
    return [step_discounts(gamma, e.trajectory.elapsed, 1.0, "decision") for e in episodes]


def rollout_batch(
    trajectories: list[Trajectory], discounts: list[np.ndarray], value_lambda: float = 0.95
) -> RolloutBatch:
    """Return what an update learns from, with one lambda of the critic's targets."""
    return RolloutBatch(trajectories, discounts, [np.full(t.steps, value_lambda) for t in trajectories])


SETTINGS = {
    **{"clip_range": 0.2, "entropy_coefficient": 0.01, "value_coefficient": 0.5, "gae_lambda": 0.9},
    **{"epochs": 2, "batch_size": 64, "learning_rate_actor": 1e-3, "learning_rate_critic": 1e-3},
    **{"max_grad_norm": 0.5, "microbatch": 64, "precision": "fp32"},
}
"""Settings of the toys' updates, where a test does not change them; the others have their defaults."""


def toy_settings(kind, _given=(), **changes):
    """Return settings of a dataclass or NamedTuple, those of the toys with some changed."""
    values = {**SETTINGS, **changes}
    return kind(**dict(_given), **{name: values[name] for name in kind.__annotations__ if name in values})


def toy_algorithm(**changes) -> Ppo:
    """Return PPO with some settings changed."""
    return toy_settings(Ppo, {"coefficients": toy_settings(PpoCoefficients, **changes)}, **changes)


def toy_coefficients(factor: float = 1.0, **changes) -> Coefficients:
    """Return coefficients of an update with some changed."""
    return Coefficients(factor, toy_settings(PpoCoefficients, **changes))


def toy_updater(model: ActorCritic, device: str = "cpu", **changes) -> Updater:
    """Return an updater of a model with some settings of any kind changed."""
    return Updater(model, torch.device(device), toy_algorithm(**changes), toy_settings(UpdateSettings, **changes))


def toy_stepper(model: ActorCritic, kind=TorchStepper, **changes) -> TorchStepper:
    """Return a stepper of a model with some settings of any kind changed."""
    return kind(model, toy_algorithm(**changes), toy_settings(UpdateSettings, **changes))


def toy_update(
    updater: Updater, episodes: list[InstanceTrajectory], seed: int = 0, factor: float = 1.0
) -> UpdateReport:
    """Update from some episodes."""
    rollout = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
    coefficients = Coefficients(factor, updater.algorithm.coefficients)
    return updater.update(rollout, coefficients, np.random.default_rng(seed))


def columns_of(stepper, reports: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the columns of a stepper's reports by name."""
    return by_name(stepper.algorithm, reports)
