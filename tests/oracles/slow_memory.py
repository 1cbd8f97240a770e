"""Minimal gated recurrent units as the formulas say, one step after the other, in NumPy and float64."""

from typing import NamedTuple

import numpy as np

from longstride.policies.networks import ActorCritic


class Played(NamedTuple):
    """What a network does on T steps: float64[T, outputs] and its states before each of them, float64[T + 1, S]."""

    outputs: np.ndarray
    states: np.ndarray


def sigmoid(x):
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def step_of_a_layer(x, state, weight, bias):
    """Return a layer's output float64[H] and its state after a step, for float64[H] input and state."""
    q, u, p = np.split(x @ weight + bias, 3)
    candidate = np.where(u >= 0.0, u + 0.5, sigmoid(np.minimum(u, 0.0)))
    after = (1.0 - sigmoid(q)) * state + sigmoid(q) * candidate
    return sigmoid(p) * after + (1.0 - sigmoid(p)) * x, after


def layer_in_order(x, weight, bias, start, begins):
    """Return outputs and states after each step, float64[T, H] both, of a layer on float64[T, H] inputs."""
    outputs, states, state = [], [], start
    for row, begin in zip(x, begins, strict=True):
        output, state = step_of_a_layer(row, np.zeros_like(state) if begin else state, weight, bias)
        outputs.append(output)
        states.append(state)
    return np.stack(outputs), np.stack(states)


class SlowNetwork:
    """The actor or the critic of a model, one observation at a time."""

    def __init__(self, model: ActorCritic, part: str) -> None:
        self._layers = [tuple(t.detach().double().numpy() for t in pair) for pair in model.layers(part)]
        self._mean, self._scale = (model.tensors[f"observation_{name}"].double().numpy() for name in ("mean", "scale"))
        self._limit = model.spec.observation_limit if part == "actor" else 10.0
        self._activate = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[model.spec.activation]
        self.state_size = model.spec.state_size if part == "actor" else model.spec.critic_state_size

    def step(self, observation, state):
        """Return outputs and the state after a step, float64[outputs] and float64[S]."""
        x = np.clip((observation - self._mean) * self._scale, -self._limit, self._limit)
        (weight, bias), *remembering, (last, last_bias) = self._layers
        x, after = self._activate(x @ weight + bias), []
        for (weight, bias), part in zip(remembering, np.split(state, len(remembering)), strict=True):
            x, new = step_of_a_layer(x, part, weight, bias)
            after.append(new)
        return x @ last + last_bias, np.concatenate(after)

    def play(self, observations, begins, start=None):
        """Return outputs and states on float[T, O] observations; a state is forgotten where an episode begins."""
        outputs, states = [], [np.zeros(self.state_size) if start is None else start]
        for observation, begin in zip(observations, begins, strict=True):
            output, after = self.step(observation, np.zeros(self.state_size) if begin else states[-1])
            outputs.append(output)
            states.append(after)
        return Played(np.stack(outputs), np.stack(states))
