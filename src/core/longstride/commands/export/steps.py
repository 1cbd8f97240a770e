"""Steps on which the forms of a policy are compared: recorded from its simulator, or drawn at random."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from longstride.policies.export.contract import actor_tensors
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.seeding import stream
from longstride.simulators.simulator import Simulator

_EPISODE = 64
"""Steps of an episode that is drawn at random."""


class Steps(NamedTuple):
    """T steps of episodes one after another.

    Attributes:
        observations: float32[T, O].
        masks: bool[T, values of all choices].
        features: float32[T, values of all choices, k].
        begins: bool[T], whether a step is the first of an episode.
    """

    observations: np.ndarray
    masks: np.ndarray
    features: np.ndarray
    begins: np.ndarray


def recorded_steps(simulator: Simulator, spec: PolicySpec, params: np.ndarray, steps: int, seed: int) -> Steps:
    """Return steps that the sampled policy plays on its simulator, from the beginning of an episode on.

    Raises:
        SimulatorError: the simulator broke its contract.
        UserError: Numba cannot compile it.
    """
    kind = FixedLengthCollector if simulator.compiled else GymnasiumCollector
    collector = kind(simulator, spec, RolloutPlan(seed, 1, steps))
    collector.compile(params)
    [collected], _ = collector.collect(params, 0, 1)
    trajectory = collected.trajectory
    begins = np.ones(steps, np.bool_)
    begins[1:] = (trajectory.terminated | trajectory.truncated)[:-1]
    return Steps(trajectory.observations[:steps], trajectory.masks, trajectory.features, begins)


def random_steps(spec: PolicySpec, params: np.ndarray, steps: int, seed: int) -> Steps:
    """Return random steps: observations of the mean and deviation that the policy has seen, any masks, any features."""
    rng, tensors = stream(seed, "export"), actor_tensors(spec, params)
    deviations = 1.0 / np.maximum(tensors["observation_scale"], np.float32(1e-30))
    observations = tensors["observation_mean"] + deviations * rng.standard_normal((steps, spec.observation_size))
    masks = rng.random((steps, sum(spec.action_space.choices))) < 0.7
    begin = 0
    for n in spec.action_space.choices:
        masks[np.arange(steps), begin + rng.integers(n, size=steps)] = True
        begin += n
    features = rng.standard_normal((*masks.shape, spec.action_features)).astype(np.float32)
    return Steps(observations.astype(np.float32), masks, features, np.arange(steps) % _EPISODE == 0)


def episodes_of(steps: Steps) -> Iterator[slice]:
    """Yield the rows of each episode."""
    starts = [*np.flatnonzero(steps.begins).tolist(), len(steps.begins)]
    for begin, end in pairwise(starts):
        yield slice(begin, end)


Play = Callable[[Steps], tuple[np.ndarray, np.ndarray]]
"""A form of the policy: ``play(steps) -> (outputs, actions)``, float32[T, outputs] and float64[T, n]."""
