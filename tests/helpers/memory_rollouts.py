"""Rollouts of policies with memory, and what their states must be: the shop's loop is compiled once a session."""

import json
from functools import cache

import numpy as np
from helpers.memory_models import memory_model, memory_model_for, memory_spec
from helpers.toy_runs import SEED, actor_weights, discounts_of, rollout_batch, toy_updater
from oracles.slow_memory import SlowNetwork
from oracles.toy_simulators import Shop

from longstride.learning.schedule import Coefficients
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import CHUNK
from longstride.rollout.collector import CollectorState, InstanceTrajectory, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.trajectory import Trajectory, allocate

SIZES = {"actor": (16, 16), "critic": (24, 24)}


@cache
def _shop_loop():
    model = memory_model_for(Shop(), **SIZES)
    return FixedLengthCollector(Shop(), model.spec, RolloutPlan(SEED, 1, 1)).loop


def shop_model(seed: int = 0) -> ActorCritic:
    """Return a model for the shop, which has masks, action features, and episodes of 30 days or until it is broke."""
    return memory_model_for(Shop(), seed, **SIZES)


def shop_collector(instances: int, steps: int, **plan) -> FixedLengthCollector:
    """Return a collector of so many steps."""
    collector = FixedLengthCollector(Shop(), shop_model().spec, RolloutPlan(SEED, instances, steps, **plan))
    collector.loop = _shop_loop()
    return collector


def shop_episodes(instances: int) -> EpisodeCollector:
    """Return a collector of whole episodes, one after the other."""
    collector = EpisodeCollector(Shop(), shop_model().spec, RolloutPlan(SEED, instances))
    collector._loop = _shop_loop()
    return collector


def copied(collected: list[InstanceTrajectory]) -> list[InstanceTrajectory]:
    """Return what the next collection does not overwrite."""
    return [each._replace(trajectory=Trajectory(*(column.copy() for column in each[0]))) for each in collected]


def begins_of(trajectory: Trajectory, first: bool) -> np.ndarray:
    """Return bool[T], where episodes begin: after each end, and in the first row as it is given."""
    ended = trajectory.terminated | trajectory.truncated
    return np.concatenate([[first], ended[:-1]])


def check_states(trajectory: Trajectory, model: ActorCritic, start: np.ndarray | None) -> np.ndarray | None:
    """Check beginnings and states of a trajectory that continues from float64[S] states; None where one begins.

    The states that the next one continues from are returned.
    """
    begins = begins_of(trajectory, start is None)
    np.testing.assert_array_equal(trajectory.begins[:, 0], begins)
    states = SlowNetwork(model, "actor").play(trajectory.observations[:-1], begins, start).states
    before = np.where(begins[:, None], 0.0, states[:-1])
    assert len(trajectory.states) == -(-trajectory.steps // CHUNK)
    np.testing.assert_allclose(trajectory.states, before[::CHUNK], rtol=1e-4, atol=1e-5)
    return None if trajectory.terminated[-1] or trajectory.truncated[-1] else states[-1]


def memory_updater(model: ActorCritic, **changes):
    """Return an updater that takes all samples at once, unless told otherwise."""
    return toy_updater(model, **{"batch_size": 1 << 20, "microbatch": 1 << 20, "epochs": 1, **changes})


def memory_update(updater, collected: list[InstanceTrajectory], seed: int = 0):
    """Update from a rollout; return its report."""
    rollout = rollout_batch([each.trajectory for each in collected], discounts_of(collected))
    return updater.update(rollout, Coefficients(1.0, updater.algorithm.coefficients), np.random.default_rng(seed))


def rollout_with(model: ActorCritic, collector, count: int) -> list[InstanceTrajectory]:
    """Collect with a model's actor; the arrays are those of no other rollout."""
    return copied(collector.collect(actor_weights(model), 0, count)[0])


def random_trajectory(steps: int, begins: bool, seed: int, terminated=(), truncated=()) -> Trajectory:
    """Return a trajectory of no simulator, with observations at random, episodes that end at some steps."""
    spec, rng = memory_spec(), np.random.default_rng(seed)
    cuts = [t for t in truncated if t < steps - 1]
    t = allocate(spec, steps, lambda shape, dtype: np.zeros(shape, dtype), len(cuts))
    t.observations[:] = rng.normal(0, 2, t.observations.shape)
    t.cut_observations[:] = rng.normal(0, 2, t.cut_observations.shape)
    t.masks[:], t.elapsed[:] = True, 1.0
    t.terminated[list(terminated)], t.truncated[list(truncated)] = True, True
    t.rewards[:] = rng.normal(size=steps)
    t.begins[:, 0] = begins_of(t, begins)
    return t


def random_memory_model(seed: int = 0) -> ActorCritic:
    """Return a model for these trajectories."""
    return memory_model(memory_spec(), seed)


def check_continues(model: ActorCritic, collector, other) -> None:
    """Check that another collector goes on with the memory of unfinished episodes, by what a checkpoint has."""
    rollout_with(model, collector, 3)
    records, metadata = collector.state_dict()
    other.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
    one, two = (rollout_with(model, each, 3) for each in (collector, other))
    for (a, *_), (b, *_) in zip(one, two, strict=True):
        assert a.states.tobytes() == b.states.tobytes()
        assert a.log_probs.tobytes() == b.log_probs.tobytes()
    assert any(each.trajectory.states[0].any() for each in one)
