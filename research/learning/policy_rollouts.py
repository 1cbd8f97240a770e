"""Rollouts of the last policy of a run of `n_model`, collected as in training; for critic_fits.py."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

import longstride
from longstride.learning.advantages import gae
from longstride.policies.compiled.forward import align_params
from longstride.policies.networks import ActorCritic
from longstride.rollout.collector import CollectorState, InstanceTrajectory, RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.simulators.queueing.n_model import NModel

INSTANCES, STEPS, OLDEST, EVERY = 32, 256, 5_000, 4
"""Those of a training: instances, steps of each, steps after which episodes are given up, and share of excursions."""


class Rollouts(NamedTuple):
    """Steps of some rollouts, one instance after another."""

    observations: np.ndarray  # float32[N, 2]
    next_observations: np.ndarray  # float32[N, 2], those of a cut before the next episode begins
    rewards: np.ndarray  # float32[N]
    elapsed: np.ndarray  # float64[N], in units of the interval
    ended: np.ndarray  # bool[N], whether the next row belongs to something else
    natural: np.ndarray  # bool[N], whether it is not of an excursion
    gamma: float  # discount of an interval

    def returns(self, values: np.ndarray, next_values: np.ndarray, value_lambda: float) -> np.ndarray:
        """Return float32[N], targets of a critic."""
        no = np.zeros(len(self.rewards), np.bool_)
        discounts, lambdas = self.gamma**self.elapsed, value_lambda**self.elapsed
        return gae(self.rewards, values, next_values, discounts, no, self.ended, lambdas)[1]

    def where(self, rows: np.ndarray) -> "Rollouts":
        """Return some of the rows."""
        return Rollouts(*(column[rows] for column in self[:-1]), self.gamma)


def collect(run: Path, model: ActorCritic, count: int, pairs: bool = False) -> list[Rollouts]:
    """Return rollouts that continue where the run ended.

    In pairs, every two instances begin a rollout in the same state with the same random numbers of the simulator, and
    there are no excursions.
    """
    last = run / "checkpoints" / "last"
    tensors, facts = load_file(max(last.glob("*.safetensors"))), json.loads(max(last.glob("*.json")).read_text())
    facts = facts.get("metadata", facts)
    spec = longstride.load_policy(run).spec
    explored = {"group_size": 2} if pairs else {"explorers": EVERY}
    plan = RolloutPlan(seed=10_000, instances=INSTANCES, steps=STEPS, restart_after=OLDEST, **explored)
    collector = FixedLengthCollector(NModel(), spec, plan)
    actor = align_params(model.flat[: model.layout.actor_size].numpy(), spec)
    collector.compile(actor)
    records = {name: array for name, array in tensors.items() if name.startswith("rollout.")}
    collector.load_state_dict(CollectorState(records, facts["rollout"]))
    scale = facts["interval"], facts["gamma"]
    return [_rollout(collector.collect(actor, 0, INSTANCES)[0], *scale) for _ in range(count)]


def joined(parts: list[Rollouts]) -> Rollouts:
    """Return all steps of some rollouts."""
    columns = zip(*(part[:-1] for part in parts), strict=True)
    return Rollouts(*map(np.concatenate, columns), parts[0].gamma)


def _rollout(collected: list[InstanceTrajectory], interval: float, gamma: float) -> Rollouts:
    """Return a copy of a rollout."""
    parts = []
    for played in collected:
        trajectory, natural = played.trajectory, played.is_natural
        following, ended = trajectory.observations[1:].copy(), trajectory.truncated.copy()
        following[:-1][ended[:-1]] = trajectory.cut_observations[: ended[:-1].sum()]
        ended[-1] = True
        columns = trajectory.observations[:-1].copy(), following, trajectory.rewards.copy()
        parts.append(Rollouts(*columns, trajectory.elapsed / interval, ended, np.full(len(ended), natural), gamma))
    return joined(parts)
