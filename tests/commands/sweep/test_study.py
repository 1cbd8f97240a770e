"""The search: its journal after a kill, the Pareto front against its definition, Optuna's own words on pruning."""

import math

import numpy as np
import pytest

pytest.importorskip("pydantic")


pytest.importorskip("optuna")

from longstride.commands.sweep.space import read_space
from longstride.commands.sweep.study import Aim, Search, Trial, best_first, pareto_front

SPACE = read_space(["learning_rate_actor=1e-5..1e-2 log", "num_epochs=1..10", "batch_size=256,512"], None)
LEAST = Aim("score", lower_is_better=True, pruning=True, seed=3)


def score_of(params):
    """Return a score whose best learning rate is 1e-3, and for which the batch size means nothing."""
    return (math.log10(params["learning_rate_actor"]) + 3) ** 2 + 0.01 * params["num_epochs"]


def search_until(journal, count, die_at=None, aim=LEAST):
    """Make trials until some have ended, or leave the one with a number as a kill leaves it."""
    search = Search(journal, SPACE, aim)
    repaired = search.repair()
    while len(search.trials()) < count:
        number, params = search.begin()
        if number == die_at:
            break
        score = score_of(params)
        if any([search.report(part, score + 10 - part) for part in range(1, 10)]):
            search.prune(took=1.0)
        else:
            search.complete(score, seconds=2.0, took=3.0)
    return search, repaired


def test_a_search_that_was_killed_tries_what_an_uninterrupted_one_tries(tmp_path, monkeypatch):
    whole, _ = search_until(tmp_path / "whole", 16)
    search_until(tmp_path / "killed", 16, die_at=7)
    with (tmp_path / "killed").open("ab") as file:
        file.write(b'{"op_code":4,"worker_i')  # a line that the kill cut off
    (tmp_path / "killed.lock").touch()  # for which Optuna would wait half a minute
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits for the lock of a dead process"))
    continued, repaired = search_until(tmp_path / "killed", 16)
    assert repaired == [7]
    assert [t.number for t in continued.trials()] == [0, 1, 2, 3, 4, 5, 6, *range(8, 17)], "7 is repeated as 8"
    assert [(t.params, t.state, t.score) for t in continued.trials()] == [
        (t.params, t.state, t.score) for t in whole.trials()
    ]
    assert {t.state for t in whole.trials()} == {"complete", "pruned"}
    shares = whole.importances()
    assert sum(shares.values()) == pytest.approx(1.0)
    best = best_first(whole.trials(), True)[0]
    assert best.score == min(t.score for t in whole.trials() if t.score is not None)
    assert all(isinstance(t.params["num_epochs"], int) and t.params["batch_size"] in (256, 512) for t in whole.trials())


def test_trials_below_the_median_are_given_up_and_only_they(tmp_path):
    """By the rule of the median itself: worse at its best so far than half of the complete trials at the same part."""
    search, complete = Search(tmp_path / "journal", SPACE, LEAST), []
    scores = np.random.default_rng(0).normal(size=20).tolist()
    for score in scores:
        search.begin()
        pruned = search.report(3, score)
        assert pruned == (len(complete) >= 5 and score > np.median(complete)), (score, complete)
        if pruned:
            search.prune(1.0)
        else:
            complete.append(score)
            search.complete(score, 1.0, 1.0)
    assert 5 < len(complete) < 20
    search.begin()
    assert not search.report(2, -1e9), "no comparison before the third part"
    assert search.report(3, 1e9), "and what was good before it does not count"


def test_two_objectives_know_no_pruning(tmp_path):
    search = Search(tmp_path / "journal", SPACE, Aim("score,seconds", lower_is_better=False, pruning=True, seed=0))
    for i in range(9):
        _, params = search.begin()
        assert not search.report(3, -1e9)
        search.complete(-score_of(params), seconds=float(i), took=1.0)
    assert len(search.importances()) == 3
    assert [t.score for t in best_first(search.trials(), False)] == sorted(t.score for t in search.trials())[::-1]


def test_failed_trials_count_and_tell_why(tmp_path):
    search = Search(tmp_path / "journal", SPACE, LEAST)
    search.begin()
    search.fail("The disk is full.", 4.0)
    (trial,) = search.trials()
    assert (trial.state, trial.error, trial.took, trial.score) == ("failed", "The disk is full.", 4.0, None)
    assert search.importances() == {}


@pytest.mark.parametrize("lower", [True, False])
def test_the_front_has_those_that_none_beats_in_both(lower):
    rng = np.random.default_rng(5)
    trials = [Trial(n, "complete", {}, float(rng.integers(8)), float(rng.integers(8)), 0.0) for n in range(30)] + [
        Trial(30, "pruned", {}, None, None, 0.0)
    ]
    sign = 1 if lower else -1

    def beats(a, b):
        as_good = sign * a.score <= sign * b.score and a.seconds <= b.seconds
        return as_good and (a.score != b.score or a.seconds != b.seconds)

    known = trials[:-1]
    expected = {(t.score, t.seconds) for t in known if not any(beats(other, t) for other in known)}
    assert {(t.score, t.seconds) for t in pareto_front(trials, lower)} == expected
    assert len(pareto_front(trials, lower)) == len(expected), "one of those that are equal"
