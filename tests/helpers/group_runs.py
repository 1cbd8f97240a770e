"""Collectors of groups, all of one simulator and one number of generators, so that little is compiled."""

from helpers.short_shop import ShortShop
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, SEED, new_model

from longstride.policies.networks import ActorCritic
from longstride.rollout.collector import InstanceTrajectory, RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.trajectory import Trajectory

GROUP = 4
"""Members of a group."""


def shop_model(seed: int = 0) -> ActorCritic:
    """Return a model whose policy is far from trivial."""
    return new_model(ShortShop(), "relu", seed)


def group_collector(steps: int, instances: int, threads: int = 1, **groups) -> FixedLengthCollector:
    """Return a collector of the short shop; groups are given as the plan has them."""
    shop = ShortShop()
    spec = actor_spec(shop, (shop.observation_size, *HIDDEN, shop.action_space.outputs))
    return FixedLengthCollector(shop, spec, RolloutPlan(SEED, instances, steps, threads, **groups))


def copied(collected: InstanceTrajectory) -> InstanceTrajectory:
    """Return what the next collection does not overwrite."""
    return InstanceTrajectory(_copy(collected.trajectory), collected.finished)


def _copy(trajectory: Trajectory) -> Trajectory:
    return Trajectory(*(column.copy() for column in trajectory))


def assert_same_bits(one: Trajectory, other: Trajectory) -> None:
    """Check that all columns of two trajectories are the same to the bit."""
    for name, a, b in zip(Trajectory._fields, one, other, strict=True):
        assert a.tobytes() == b.tobytes(), name
