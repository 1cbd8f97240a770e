"""Runs whose horizon grows sooner, because episodes reach so far and values hold together for so long."""

import math

import numpy as np
import pytest
from training.test_rollout_growth import GROWING, _large_rollouts_for_short_runs, no_display  # noqa: F401
from training.test_trainer import assert_same_state, figures, new_run, train

from longstride.learning.batch import target_reach
from longstride.learning.batch.mean_outcomes import next_outcomes
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from longstride.training import rewards
from longstride.training.rewards import growing_discount
from longstride.training.run_directory.metrics_log import read_metrics


@pytest.mark.parametrize(
    ("share", "seen", "horizon"),
    [
        (0.0, 0.0, 50.0),
        (0.25, 0.0, 50.0 * math.sqrt(10.0)),
        (0.5, 0.0, 500.0),
        (0.0, 1.0, 50.0),
        (0.1, 1.0, 50.0 * math.sqrt(10.0)),
        (0.1, 0.2, 100.0),
        (0.1, 0.05, 50.0 * 10.0**0.2),
        (0.2, 1.0, 500.0),
        (0.2, 3.0, 500.0),
        (0.3, 0.6, 300.0),
        (0.45, 0.6, 50.0 * 10.0**0.9),
        (0.9, 0.1, 500.0),
    ],
)
def test_the_horizon_is_as_long_as_is_seen_by_a_fifth_of_the_run_and_whole_by_its_half(share, seen, horizon):
    assert growing_discount(math.exp(-1.0 / 500.0), share, seen) == pytest.approx(math.exp(-1.0 / horizon), rel=1e-12)


class Drifting(Simulator):
    """A number that keeps 98 % of itself at each step, which actions push up or down; the reward is the number."""

    observation_size, action_space, max_steps = 1, Discrete(2), 100_000
    state_dtype = np.dtype([("number", np.float64)])

    def reset(state, parameters, rng):
        """Begin at 0."""
        state.number = 0.0

    def observe(state, parameters, observation):
        """Write the number."""
        observation[0] = state.number

    def step(state, parameters, action, rng):
        """Push it a little, and move it by chance."""
        state.number = 0.98 * state.number + (0.01 if action == 1 else -0.01) + rng.standard_normal()
        return state.number, False


LONG = {**GROWING, "simulator": "training.test_long_horizon:Drifting", "horizon": 20.0}


def horizons(directory):
    """Return the horizon of each iteration, and the share of the run that was done before."""
    records = read_metrics(directory)
    return [-1.0 / math.log(r["gamma"]) for r in records], [0.0, *(r["share_done"] for r in records[:-1])]


def test_the_horizon_grows_sooner_where_values_hold_together_and_a_resumed_run_has_the_same_bits(tmp_path):
    alone = {**LONG, "exploring_starts": 0.0}  # so all episodes have their whole length
    with pytest.MonkeyPatch.context() as patch:
        no_display(patch)
        patch.setattr(target_reach, "_EXPLAINED", 0.8)
        assert train(new_run(tmp_path / "whole", **alone)) is True
        assert train(new_run(tmp_path / "parts", **alone), stop_after=5) is False
        assert train(new_run(tmp_path / "parts", **alone, resume=True)) is True
    memory = [r.get("value_memory", 0.0) for r in read_metrics(tmp_path / "whole")]
    assert 20.0 < memory[-1] < 100.0, "exp(-k / 49.5) of the number is left after k steps"
    found, shares = horizons(tmp_path / "whole")
    sooner = [min(2.0 * 10.0 ** min(share / 0.2, 1.0), steps) for share, steps in zip(shares, memory, strict=True)]
    late = [2.0 * 10.0 ** min(share / 0.5, 1.0) for share in shares]
    wanted = [max(pair) for pair in zip(sooner, late, strict=True)]
    assert found == pytest.approx(np.maximum.accumulate(wanted)), "it never shrinks"
    assert any(s > 1.2 * t for s, t in zip(sooner, late, strict=True))
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert figures(tmp_path / "whole") == figures(tmp_path / "parts")


def test_the_horizon_waits_for_episodes_that_are_still_short(tmp_path):
    """Those of this run stay at a tenth: its rollouts are longer than episodes, so they show no rewards by age."""
    with pytest.MonkeyPatch.context() as patch:
        no_display(patch)
        assert train(new_run(tmp_path, **LONG), stop_after=4) is False
    found, shares = horizons(tmp_path)
    assert read_metrics(tmp_path)[-1]["value_memory"] > 15.0
    assert found == pytest.approx([2.0 * 100.0**share for share in shares])


@pytest.mark.parametrize(("long_lived", "both"), [(0.5, "never"), (4.0, "late"), (100.0, "soon")])
def test_outcomes_count_where_values_hold_together_for_a_part_of_the_horizon(tmp_path, long_lived, both):
    """The horizon grows from 2 to 20 decisions, and values of this simulator hold together for 20 to 100.

    They count for all where that is a part of the present horizon. Where it is more than that part of the whole one,
    outcomes are for the critic alone during the first half of the run, and what it explains decides its lambda.
    """
    learned_from, batches, whole = [], [], rewards.RolloutBatch

    def noting(drawn, discount):
        learned_from.append(drawn is not None)
        return next_outcomes(drawn, discount)

    def batch(trajectories, discounts, value_lambdas, outcomes, for_critic):
        elapsed = {round(float(np.log(each[0])), 9) for each in value_lambdas}
        batches.append((for_critic, elapsed))
        return whole(trajectories, discounts, value_lambdas, outcomes=outcomes, for_critic=for_critic)

    with pytest.MonkeyPatch.context() as patch:
        no_display(patch)
        patch.setattr(rewards, "next_outcomes", noting)
        patch.setattr(rewards, "RolloutBatch", batch)
        patch.setattr(rewards, "_LONG_LIVED", long_lived)
        patch.setattr(target_reach, "_EXPLAINED", 0.8)  # this critic explains 58 to 97 %
        assert train(new_run(tmp_path, **LONG)) is True
    found, shares = horizons(tmp_path)
    instances = len(learned_from) // len(found)
    records = read_metrics(tmp_path)
    memory = np.array([record.get("value_memory", 0.0) for record in records])
    for_all, last = (memory > 0.0) & (memory <= long_lived * np.array(found)), memory > long_lived * 20.0
    for_all, last = (np.append(False, each[:-1]) for each in (for_all, last))
    assert np.array_equal(learned_from, np.repeat(for_all | last, instances))
    for_critic = last & (np.array(shares) < 0.5)
    assert [each for each, _ in batches] == for_critic.tolist()
    lambdas, factor = [], 1.0
    for record, now, then in zip(records, last, memory > long_lived * 20.0, strict=True):
        lambdas.append(1.0 - 0.05 / factor if now else 0.95)
        if then:
            factor = min(max(factor * (1.1 if record["explained_variance"] > 0.8 else 1.0 / 1.1), 1.0), 5.0)
        assert record.get("value_lambda") == (pytest.approx(lambdas[-1]) if then else None)
    assert [each for _, each in batches] == [{round(math.log(each), 9)} for each in lambdas]
    assert (lambdas[-1] > 0.97) == (both == "never")
    share = sum(for_all) / len(for_all)
    assert both == ("never" if share == 0.0 else "late" if share < 0.7 else "soon")
    assert last.any() == (last & ~for_critic).any() == for_critic.any() == (both == "never")


def test_a_policy_with_memory_waits_for_half_of_the_run(tmp_path):
    """The value of an observation alone says little there."""
    with pytest.MonkeyPatch.context() as patch:
        no_display(patch)
        assert train(new_run(tmp_path, **LONG, policy_network="mingru"), stop_after=2) is False
    first, second = read_metrics(tmp_path)
    assert "value_memory" not in second
    assert -1.0 / math.log(second["gamma"]) == pytest.approx(2.0 * 100.0 ** first["share_done"])
