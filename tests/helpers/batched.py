"""Batched collectors of the toys with torch on the CPU, whose turns are compiled once a session."""

from functools import cache

import numpy as np
import torch
from helpers.toy_runs import KINDS, SEED, toy_model

from longstride.policies.batched_forward import TorchForward
from longstride.policies.networks import ActorCritic
from longstride.rollout.batched.arrays import half_batches
from longstride.rollout.batched.collector import BatchedCollector
from longstride.rollout.collector import InstanceTrajectory, RolloutPlan
from longstride.simulators.simulator import Simulator

CPU = torch.device("cpu")


def torch_forward(model: ActorCritic, instances: int, device: torch.device = CPU, new_graphs=None) -> TorchForward:
    """Return the forward pass of a model's actor for so many instances."""
    forward = TorchForward(model.spec, *half_batches(instances), device, new_graphs)
    forward.load(model.flat[: model.layout.actor_size].numpy())
    return forward


def batched_collector(
    simulator: Simulator, model: ActorCritic, instances: int, steps: int = 0, new_graphs=None, **plan
) -> BatchedCollector:
    """Return a collector of whole episodes, or of so many steps."""
    forward = torch_forward(model, instances, new_graphs=new_graphs)
    rollout = RolloutPlan(SEED, instances, steps, **plan)
    collector = BatchedCollector(simulator, model.spec, rollout, forward)
    collector._play_turns = _turns_of(type(simulator), model.spec, collector)
    return collector


_TURNS = {}


def _turns_of(kind, spec, collector):
    return _TURNS.setdefault((kind, spec), collector._play_turns)


@cache
def toy_batched(kind: str, instances: int = 8) -> BatchedCollector:
    """Return a toy's collector; whoever changes it puts it back."""
    return batched_collector(KINDS[kind][0](), toy_model(kind), instances)


def assert_same_but_for_rounding(batched: list[InstanceTrajectory], fused: list[InstanceTrajectory]) -> None:
    """Assert that two rollouts have the same actions, and numbers that differ by rounding of the network's outputs.

    Where actions are real numbers, they and what follows from them are rounded, too.
    """
    for one, other in zip(batched, fused, strict=True):
        a, b = one.trajectory, other.trajectory
        real = a.actions.dtype == np.float32
        for name in a._fields:
            p, q = getattr(a, name), getattr(b, name)
            assert p.shape == q.shape, name
            assert p.dtype == q.dtype, name
            if name == "log_probs":
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=2e-5 if real else 1e-5)
            elif name == "states" or (real and p.dtype == np.float32):
                np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-4, err_msg=name)
            else:
                assert np.array_equal(p, q), name
        assert len(one.finished) == len(other.finished)
        for end, expected in zip(one.finished, other.finished, strict=True):
            assert abs(end.total_reward - expected.total_reward) <= (1e-3 if real else 0.0)
            assert real or (end.metrics, end.message) == (expected.metrics, expected.message)


def bits(collected: list[InstanceTrajectory]) -> list[bytes]:
    """Return all bytes of trajectories."""
    return [column.tobytes() for each in collected for column in each.trajectory]
