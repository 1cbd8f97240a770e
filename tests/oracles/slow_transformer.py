"""A causal transformer as the formulas say, one observation after the other, in NumPy and float64: no ring, no turns.

The keys and values of an episode are kept in a list. A pair of values of a query and a key are complex numbers, whose
product is turned by their distance in steps.
"""

import numpy as np

from longstride.policies.families.transformer.norm import NORM_EPSILON
from longstride.policies.networks import ActorCritic


def norm(x):
    """Return x divided by its root mean square."""
    return x / np.sqrt((x * x).mean() + NORM_EPSILON)


def turns_per_step(window, size):
    """Return the angles of the pairs for a distance of one step: whole multiples of half a turn in the window."""
    pairs = size // 2
    exponents = [1.0 - i / (pairs - 1) if pairs > 1 else 1.0 for i in range(pairs)]
    return np.pi / window * np.array([max(round((window / 2) ** e), 1) for e in exponents])


def _as_numpy(pair):
    return tuple(tensor.detach().double().numpy() for tensor in pair)


class SlowTransformer:
    """The actor or the critic of a model; :meth:`step` is the next step of its episode, :meth:`begin` another one."""

    def __init__(self, model: ActorCritic, part: str) -> None:
        self._layers, self._part = [_as_numpy(pair) for pair in model.layers(part)], part
        self._mean, self._scale = (model.tensors[f"observation_{name}"].double().numpy() for name in ("mean", "scale"))
        self._limit = model.spec.observation_limit if part == "actor" else 10.0
        self._activate = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[model.spec.activation]
        self._window, self._heads = model.spec.context_length, model.spec.attention_heads
        self.begin()

    def use_head(self, model):
        """Take the last layer of a model whose other layers are the same."""
        self._layers[-1] = _as_numpy(model.layers(self._part)[-1])

    def begin(self):
        """Forget everything."""
        self._seen = [[] for _ in range(len(self._layers) // 4)]

    def step(self, observation):
        """Return the outputs after an observation, float64[outputs]."""
        x = np.clip((observation - self._mean) * self._scale, -self._limit, self._limit)
        (weight, bias), *blocks, (last, last_bias) = self._layers
        x = x @ weight + bias
        for number, seen in enumerate(self._seen):
            (a, a_bias), (b, b_bias), (c, c_bias), (e, e_bias) = blocks[4 * number : 4 * number + 4]
            query, key, value = np.split(norm(x) @ a + a_bias, 3)
            seen.append((key, value))
            x = x + self._heads_find(query, seen[-self._window :]) @ b + b_bias
            x = x + self._activate(norm(x) @ c + c_bias) @ e + e_bias
        return norm(x) @ last + last_bias

    def _heads_find(self, query, seen):
        """Return what the heads find among (key, value) pairs, the last of which is the present one."""
        found = []
        for head in np.split(np.arange(len(query)), self._heads):
            half, angles = len(head) // 2, turns_per_step(self._window, len(head))
            complex_query = query[head[:half]] + 1j * query[head[half:]]
            scores = []
            for back, (key, _) in enumerate(reversed(seen)):
                complex_key = key[head[:half]] + 1j * key[head[half:]]
                scores.append((complex_query * np.conj(complex_key) * np.exp(1j * angles * back)).sum().real)
            weights = np.exp(np.array(scores) / np.sqrt(len(head)))
            values = np.array([value[head] for _, value in reversed(seen)])
            found.append(weights / weights.sum() @ values)
        return np.concatenate(found)

    def play(self, observations, begins):
        """Return outputs float64[T, outputs] on float[T, O] observations, from where the last call ended."""
        outputs = []
        for observation, begin in zip(observations, begins, strict=True):
            if begin:
                self.begin()
            outputs.append(self.step(observation))
        return np.stack(outputs)
