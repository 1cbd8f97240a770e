"""The episode as it would be written without any thought of speed: plain functions, torch, one step at a time."""

from typing import Any, NamedTuple

import numpy as np
import torch
from oracles.slow_update import slow_distribution

from longstride.policies.networks import ActorCritic
from longstride.seeding import stream
from longstride.simulators.simulator import Simulator, new_state
from longstride.simulators.spaces import ActionSpace, Box, Discrete


class SlowEpisode(NamedTuple):
    """Lists of what each step saw and did; `actions` are as a trajectory keeps them."""

    observations: list[np.ndarray]
    masks: list[np.ndarray]
    features: list[np.ndarray]
    actions: list[Any]
    log_probs: list[float]
    rewards: list[float]
    elapsed: list[float]
    control_variate: list[float]
    terminated: list[bool]
    truncated: list[bool]
    state: Any


def play_slowly(simulator: Simulator, model: ActorCritic, seed: int, number: int) -> SlowEpisode:
    """Play an episode with the sampled policy on the streams that the collector uses."""
    rng, policy_rng = stream(seed, "simulator", number), stream(seed, "policy", number)
    kind, parameters = type(simulator), simulator.parameters
    state = new_state(simulator)[0]
    episode = SlowEpisode([], [], [], [], [], [], [], [], [], [], state)
    kind.reset(state, parameters, rng)
    for t in range(simulator.max_steps):
        observation, mask, features = _look(simulator, state)
        action, log_prob = _sample(model, observation, mask, features, policy_rng)
        clock, control = _optional(simulator, "time", state), _optional(simulator, "control_variate", state)
        reward, terminated = kind.step(state, parameters, on_bounds(simulator.action_space, action), rng)
        cut = t + 1 == simulator.max_steps or bool(_optional(simulator, "truncated", state))
        step = (
            observation,
            mask,
            features,
            action,
            log_prob,
            reward,
            _optional(simulator, "time", state) - clock,
            _optional(simulator, "control_variate", state) - control,
            bool(terminated),
            cut and not terminated,
        )
        for column, value in zip(episode, step, strict=False):
            column.append(value)
        if terminated or cut:
            break
    episode.observations.append(_look(simulator, state)[0])
    return episode


def _look(simulator: Simulator, state: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    observation = np.zeros(simulator.observation_size, np.float32)
    mask = np.ones(sum(simulator.action_space.choices), np.bool_)
    type(simulator).observe(state, simulator.parameters, observation)
    if hasattr(simulator, "action_mask"):
        type(simulator).action_mask(state, simulator.parameters, mask)
    features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
    if hasattr(simulator, "action_features"):
        type(simulator).action_features(state, simulator.parameters, mask, features)
    return observation, mask, features


def _optional(simulator: Simulator, name: str, state: Any) -> float:
    function = getattr(type(simulator), name, None)
    return 0.0 if function is None else function(state, simulator.parameters)


def on_bounds(space: ActionSpace, action: Any) -> Any:
    """Return what step receives for an action as a trajectory keeps it, a copy if it is an array."""
    if isinstance(space, Discrete):
        return action
    if not isinstance(space, Box):
        return action.copy()
    x = np.float64(action)
    numbers = space.centre + space.scales * (np.tanh(x) if space.squashed else x)
    return np.clip(numbers, space.low, space.high).astype(np.float32)


@torch.no_grad()
def _sample(
    model: ActorCritic, observation: np.ndarray, mask: np.ndarray, features: np.ndarray, rng: np.random.Generator
) -> tuple[Any, float]:
    """Draw an action and say how likely it was."""
    outputs = model.logits(model.normalise(torch.from_numpy(observation)[None]))[0].double().numpy()
    if model.spec.action_features:
        outputs = outputs + features @ model.tensors["actor.feature_weights"].double().numpy()
    log_std = model.log_std.double().numpy()
    if isinstance(model.spec.action_space, Box):
        action = np.array(
            [m + np.exp(s) * rng.standard_normal() for m, s in zip(outputs, log_std, strict=True)], np.float32
        )
    else:
        begins = np.cumsum(model.spec.action_space.choices) - model.spec.action_space.choices
        columns = zip(begins, model.spec.action_space.choices, strict=True)
        action = np.array([_invert(outputs[b : b + n], mask[b : b + n], rng.random()) for b, n in columns])
    if isinstance(model.spec.action_space, Discrete):
        action = int(action[0])
    return action, slow_distribution(model.spec.action_space, outputs, log_std, mask, action)[0]


def _invert(logits: np.ndarray, mask: np.ndarray, uniform: float) -> int:
    """Return the first value at which the cumulated probability exceeds the uniform number."""
    cumulated = np.cumsum(np.where(mask, np.exp(logits - logits[mask].max()), 0.0))
    return int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))
