"""Scores, probabilities and entropy of lists of actions, in plain NumPy with 64 bits: one action after another."""

import numpy as np


class SlowPointer:
    """A policy that scores actions, read from a model."""

    def __init__(self, model):
        tensors = {name: tensor.detach().double().numpy() for name, tensor in model.tensors.items()}
        self.spec, self.tensors = model.spec, tensors
        self.layers = [
            (weight.detach().double().numpy(), bias.detach().double().numpy()) for weight, bias in model.layers("actor")
        ]

    def activate(self, x):
        return np.tanh(x) if self.spec.activation == "tanh" else np.maximum(x, 0.0)

    def scaled(self, x, name):
        limit = self.spec.observation_limit if name == "observation" else 10.0
        return np.clip((x - self.tensors[f"{name}_mean"]) * self.tensors[f"{name}_scale"], -limit, limit)

    def encoding(self, observation):
        x = self.scaled(np.asarray(observation, np.float64), "observation")
        for weight, bias in self.layers[:-1]:
            x = self.activate(x @ weight + bias)
        weight, bias = self.layers[-1]
        return x @ weight + bias

    def scores(self, observation, descriptions):
        encoding, found = self.encoding(observation), []
        for description in np.asarray(descriptions, np.float64):
            hidden = self.activate(encoding + self.scaled(description, "action") @ self.tensors["actor.describe"])
            hidden = self.activate(hidden @ self.tensors["actor.mix"] + self.tensors["actor.mix_bias"])
            linear = description @ self.tensors["actor.feature_weights"]
            found.append(hidden @ self.tensors["actor.score"] + linear)
        return np.array(found)

    def probabilities(self, observation, descriptions):
        scores = self.scores(observation, descriptions)
        powers = np.exp(scores - scores.max())
        return powers / powers.sum()
