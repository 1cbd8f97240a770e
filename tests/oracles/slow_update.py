"""Advantages as sums over all pairs of steps, and the loss of a whole network, both in float64 without torch."""

from collections.abc import Callable

import numpy as np

from longstride.policies.networks import ActorCritic
from longstride.simulators.spaces import ActionSpace, Box


def slow_gae(rewards, values, next_values, discounts, terminated, ended, gae_lambda):
    """Return advantages in O(T^2): A_t is the sum of later deltas, each times the discounts and lambdas between."""
    steps = len(rewards)
    deltas = [
        float(rewards[t]) + discounts[t] * (0.0 if terminated[t] else float(next_values[t])) - float(values[t])
        for t in range(steps)
    ]
    advantages = np.zeros(steps)
    for t in range(steps):
        for k in range(t, steps):
            if ended[t:k].any():
                break
            advantages[t] += np.prod(gae_lambda * np.asarray(discounts[t:k])) * deltas[k]
    return advantages


def slow_coefficient(pieces):
    """Return the slope of least squares, through the origin, of temporal differences on the control variate.

    ``pieces`` are pairs of control variate and what :func:`slow_gae` takes before its lambda.
    """
    differences = np.concatenate([slow_gae(*data, 0.0) for _, data in pieces])
    variate = np.concatenate([variate for variate, _ in pieces]).astype(np.float64)
    return np.linalg.lstsq(variate[:, None], differences, rcond=None)[0][0]


class SlowModel:
    """The parameters of a model as float64 arrays, in its order, to be differentiated by finite differences."""

    def __init__(self, model: ActorCritic) -> None:
        self._parts = [[x.detach().double().numpy() for x in model.part_parameters(p)] for p in ("actor", "critic")]
        self.parameters = [array for part in self._parts for array in part]
        self._features = model.spec.action_features > 0
        self._gaussian, self._activation = isinstance(model.spec.action_space, Box), model.spec.activation

    def heads(self, normalised: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return outputs, log-standard deviations of a Gaussian, and values of normalised observations."""
        actor, critic = self._parts
        actor, log_std = (actor[:-1], actor[-1]) if self._gaussian else (actor, None)
        actor, weights = (actor[:-1], actor[-1]) if self._features else (actor, [])
        outputs = self._forward(actor, normalised)
        for k, weight in enumerate(weights):
            outputs = outputs + weight * features[:, :, k].astype(np.float64)  # NumPy 1 keeps float32 there
        return outputs, log_std, self._forward(critic, normalised)[:, 0]

    def _forward(self, tensors: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        for i in range(0, len(tensors), 2):
            x = x @ tensors[i] + tensors[i + 1]
            if i + 2 < len(tensors):
                x = np.maximum(x, 0.0) if self._activation == "relu" else np.tanh(x)
        return x


def slow_derivative(function: Callable[[], float], parameter: np.ndarray, index: int) -> float:
    """Return the central difference of a function with respect to one number that it reads."""
    before = parameter.flat[index]
    parameter.flat[index] = before + 1e-6
    above = function()
    parameter.flat[index] = before - 1e-6
    below = function()
    parameter.flat[index] = before
    return (above - below) / 2e-6


def slow_distribution(space: ActionSpace, outputs, log_std, mask, action) -> tuple[float, float]:
    """Return log-probability and entropy of one action, from the definitions."""
    if isinstance(space, Box):
        return _slow_gaussian(space, outputs, log_std, action)
    log_prob = entropy = 0.0
    begin = 0
    for n, value in zip(space.choices, np.atleast_1d(action), strict=True):
        allowed = np.flatnonzero(mask[begin : begin + n])
        exponents = np.exp(outputs[begin + allowed] - outputs[begin + allowed].max())
        p = exponents / exponents.sum()
        log_prob += np.log(p[int(np.flatnonzero(allowed == value)[0])])
        entropy -= sum(q * np.log(q) for q in p if q > 0)
        begin += n
    return log_prob, entropy


def _slow_gaussian(space: Box, means, log_std, action) -> tuple[float, float]:
    """Return the same for a Box; the entropy of a squashed one by summing over a fine grid of the draw."""
    log_prob = entropy = 0.0
    for mean, std, low, high, x in zip(means, np.exp(log_std), space.low, space.high, action, strict=True):
        log_prob += -0.5 * ((float(x) - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))
        entropy += 0.5 * np.log(2 * np.pi * np.e * std**2)
        if space.squashed:
            log_prob -= np.log((high - low) / 2 / np.cosh(float(x)) ** 2)
            z, step = np.linspace(-9.0, 9.0, 2001, retstep=True)
            slopes = np.log((high - low) / 2) - 2 * np.log(np.cosh(mean + std * z))
            entropy += (slopes * np.exp(-0.5 * z**2)).sum() * step / np.sqrt(2 * np.pi)
    return log_prob, entropy


def slow_loss(space, outputs, log_std, values, samples, weights, coefficients) -> float:
    """Return the loss of PPO sample by sample; the columns of the samples are NumPy arrays."""
    total, c = 0.0, coefficients
    for i, weight in enumerate(weights):
        log_prob, entropy = slow_distribution(space, outputs[i], log_std, samples.masks[i], samples.actions[i])
        ratio = np.exp(log_prob - np.float64(samples.log_probs[i]))
        advantage = float(samples.advantages[i])
        surrogate = ratio * advantage
        if advantage > 0:
            surrogate = min(surrogate, (1 + c.clip_range) * advantage)
        else:
            surrogate = min(surrogate, (1 - c.clip_range) * advantage)
        squared = (values[i] - float(samples.returns[i])) ** 2
        total += float(weight) * (-surrogate + c.value_coefficient * 0.5 * squared - c.entropy_coefficient * entropy)
    return total
