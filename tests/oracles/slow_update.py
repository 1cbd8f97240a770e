"""Advantages as sums over all pairs of steps, and the loss of a whole network, both in float64 without torch."""

from collections.abc import Sequence

import numpy as np


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


class SlowModel:
    """Actor and critic in float64, to be differentiated by finite differences.

    `parameters` are those of the actor's layers, its feature weights where there are any, and the critic's layers.
    """

    def __init__(self, actor: Sequence, critic: Sequence, hidden_layers: int, activation: str) -> None:
        self.parameters = [np.array(a.detach().numpy(), np.float64) for a in (*actor, *critic)]
        self._layers, self._actor_tensors, self._activation = 2 * hidden_layers + 2, len(actor), activation

    def heads(self, normalised: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return logits and values of normalised observations."""
        actor, critic = self.parameters[: self._actor_tensors], self.parameters[self._actor_tensors :]
        logits = self._forward(actor[: self._layers], normalised)
        for k, weight in enumerate(actor[self._layers] if len(actor) > self._layers else []):
            logits = logits + weight * features[:, :, k]
        return logits, self._forward(critic, normalised)[:, 0]

    def _forward(self, tensors: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        for i in range(0, len(tensors), 2):
            x = x @ tensors[i] + tensors[i + 1]
            if i + 2 < len(tensors):
                x = np.maximum(x, 0.0) if self._activation == "relu" else np.tanh(x)
        return x


def slow_loss(logits, values, batch, clip_range, entropy_coefficient, value_coefficient) -> float:
    """Return the loss of PPO sample by sample; `batch` holds NumPy arrays."""
    total = 0.0
    for i, weight in enumerate(batch.weights):
        allowed = np.flatnonzero(batch.masks[i])
        shifted = logits[i][allowed] - logits[i][allowed].max()
        p = np.exp(shifted) / np.exp(shifted).sum()
        position = int(np.flatnonzero(allowed == batch.actions[i])[0])
        ratio = p[position] / np.exp(np.float64(batch.log_probs[i]))
        advantage = float(batch.advantages[i])
        surrogate = ratio * advantage
        if advantage > 0:
            surrogate = min(surrogate, (1 + clip_range) * advantage)
        else:
            surrogate = min(surrogate, (1 - clip_range) * advantage)
        entropy = -sum(q * np.log(q) for q in p if q > 0)
        squared = (values[i] - float(batch.returns[i])) ** 2
        total += float(weight) * (-surrogate + value_coefficient * 0.5 * squared - entropy_coefficient * entropy)
    return total
