"""Runs whose scales of observations begin anew: what is forgotten with them, and the same bits after --resume."""

import pytest
from training.test_long_horizon import LONG
from training.test_rollout_growth import _large_rollouts_for_short_runs, no_display  # noqa: F401
from training.test_trainer import assert_same_state, figures, new_run, train

from longstride.learning.updater import Updater
from longstride.rollout.exploring import natural_observations
from longstride.rollout.exploring.exploration import Exploration
from longstride.rollout.exploring.natural_observations import NaturalObservations
from longstride.training.best_tracker import BestTracker


@pytest.fixture
def calls(monkeypatch):
    """Return what forgot, in the order of the calls, where scales begin anew as soon as anything varies less."""
    found = []
    for kind, name in ((Exploration, "forget"), (Updater, "forget_moments"), (BestTracker, "forget_mean")):
        usual = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda self, usual=usual, name=name: found.append(name) or usual(self))
    monkeypatch.setattr(natural_observations, "_FAR_LESS", 1.0)
    no_display(monkeypatch)
    return found


def test_archive_moments_and_mean_are_forgotten_and_a_resumed_run_has_the_same_bits(tmp_path, calls, monkeypatch):
    natural, usual = [], NaturalObservations.learn
    monkeypatch.setattr(NaturalObservations, "learn", lambda self, r: natural.append(len(r)) or usual(self, r))
    assert train(new_run(tmp_path / "whole", **LONG)) is True
    assert calls[:3] == ["forget", "forget_moments", "forget_mean"]
    assert natural[-1] < max(natural), "those that explore are left out"
    before, _ = len(calls), calls.clear()
    assert train(new_run(tmp_path / "parts", **LONG), stop_after=2) is False
    assert train(new_run(tmp_path / "parts", **LONG, resume=True)) is True
    assert len(calls) == before
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert figures(tmp_path / "whole") == figures(tmp_path / "parts")


@pytest.mark.parametrize(
    ("changes", "forgets"),
    [({}, True), ({"kl_coefficient": 0.1}, False), ({"grow_rollouts": False, "num_envs": 4}, False)],
)
def test_not_with_a_reference_or_rollouts_of_one_size(tmp_path, calls, changes, forgets):
    """The reference would read new scales with old weights."""
    train(new_run(tmp_path / "run", **{**LONG, **changes}), stop_after=6)
    assert bool(calls) is forgets
