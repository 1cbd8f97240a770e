"""The episode as it would be written without any thought of speed: plain functions, torch, one step at a time."""

from typing import Any, NamedTuple

import numpy as np
import torch

from core.policy.distributions import masked_log_softmax
from core.policy.networks import ActorCritic
from core.seeding import stream
from core.simulators.simulator import Simulator, new_state


class SlowEpisode(NamedTuple):
    """Lists of what each step saw and did; `rewards` is for learning, `raw_rewards` is what step returned."""

    observations: list[np.ndarray]
    masks: list[np.ndarray]
    features: list[np.ndarray]
    actions: list[int]
    log_probs: list[float]
    rewards: list[float]
    raw_rewards: list[float]
    elapsed: list[float]
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
        action, log_prob = _sample(model, observation, mask, features, policy_rng.random())
        clock, control = _optional(simulator, "time", state), _optional(simulator, "control_variate", state)
        reward, terminated = kind.step(state, parameters, action, rng)
        cut = t + 1 == simulator.max_steps or bool(_optional(simulator, "truncated", state))
        step = (
            observation,
            mask,
            features,
            action,
            log_prob,
            reward + _optional(simulator, "control_variate", state) - control,
            reward,
            _optional(simulator, "time", state) - clock,
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
    mask = np.ones(simulator.action_space.n, np.bool_)
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


@torch.no_grad()
def _sample(
    model: ActorCritic, observation: np.ndarray, mask: np.ndarray, features: np.ndarray, uniform: float
) -> tuple[int, float]:
    """Draw by inversion: the first action at which the cumulated probability exceeds the uniform number."""
    logits = model.logits(model.normalise(torch.from_numpy(observation)[None]))
    if model.action_features:
        logits = logits + (torch.from_numpy(features) * model.tensors["actor_feature_weights"]).sum(-1)
    log_probabilities = masked_log_softmax(logits, torch.from_numpy(mask)[None])[0].double().numpy()
    cumulated = np.cumsum(np.exp(log_probabilities))
    action = int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))
    return action, float(log_probabilities[action])
