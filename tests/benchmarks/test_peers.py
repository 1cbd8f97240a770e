"""The benchmark's own rules against hand-computed numbers, and its command with a tiny budget."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import benchmarks.learning as learning
from benchmarks.peers.longstride import ends
from benchmarks.peers.problems import DEFAULTS, PROBLEMS, longstride_settings, rate
from benchmarks.peers.report import mean_and_half, summarise, table
from benchmarks.peers.stopping import Threshold
from longstride.config import Config


def test_the_threshold_is_reached_when_the_mean_of_a_full_window_reaches_it():
    threshold = Threshold(10.0, window=3)
    returns = [20.0, 20.0, 0.0, 9.0, 21.0, 0.0]  # means of three: 13.3 at the third already
    assert [threshold.add(total, 100 * (k + 1)) for k, total in enumerate(returns[:3])] == [False, False, True]
    assert (threshold.steps, threshold.episodes) == (300, 3)


def test_the_threshold_waits_for_a_full_window_and_forgets_old_episodes():
    threshold = Threshold(10.0, window=2)
    assert not threshold.add(50.0, 1)  # one episode is no window
    threshold = Threshold(10.0, window=2)
    for k, total in enumerate([0.0, 5.0, 14.9, 5.1]):  # means 2.5, 9.95, 10.0
        threshold.add(total, k)
    assert threshold.steps == 3
    assert threshold.mean == pytest.approx(10.0)
    threshold.add(-1000.0, 9)  # what follows does not count
    assert (threshold.steps, threshold.episodes) == (3, 4)
    assert math.isnan(Threshold(1.0).mean)


def _played(terminated, truncated, returns):
    trajectory = SimpleNamespace(terminated=np.array(terminated, bool), truncated=np.array(truncated, bool))
    return SimpleNamespace(trajectory=trajectory, finished=[SimpleNamespace(total_reward=r) for r in returns])


def test_episodes_are_ordered_by_their_end_and_then_by_copy():
    first = _played([0, 0, 1, 0], [0, 0, 0, 1], [5.0, 6.0])
    second = _played([1, 0, 0, 0], [0, 0, 1, 0], [7.0, -8.0])
    assert ends([first, second]) == [(0, 7.0), (2, 5.0), (2, -8.0), (3, 6.0)]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_settings_are_those_of_longstride(name):
    problem = PROBLEMS[name]
    config = Config(**longstride_settings(problem.ours, problem.budget))
    copies = problem.ours["n_envs"]
    assert config.rollout_steps * copies * config.training_episodes >= problem.budget
    assert config.rollout_steps * copies * (config.training_episodes - 1) < problem.budget
    assert set(problem.published) | set(problem.gaussian) <= {*DEFAULTS, "n_steps"}


def test_settings_are_translated_into_longstrides_meaning():
    config = Config(**longstride_settings(PROBLEMS["cartpole"].ours, 100_000))
    assert (config.learning_rate_actor, config.learning_rate_schedule) == (1e-3, "linear")
    assert (config.ppo_clip_param, config.num_epochs, config.batch_size) == (0.2, 20, 256)
    assert config.value_coefficient == 1.0  # half of the squared error, where the zoo counts the whole
    assert rate(3e-4) == (3e-4, False)


def test_an_interval_is_that_of_students_t():
    mean, half = mean_and_half([1.0, 2.0, 3.0, 4.0])
    # Standard error sqrt(5/3)/2; the 97.5 % point of t with 3 degrees of freedom is 3.1824 in every table.
    assert (mean, half) == pytest.approx((2.5, 3.1824 * math.sqrt(5 / 3) / 2), rel=1e-4)
    assert mean_and_half([7.0]) == (7.0, 0.0)


def test_a_run_that_did_not_get_there_makes_its_row_a_lower_bound():
    def run(seed, steps):
        rest = {"seconds": 2.0, "setup_seconds": 1.0, "cpu_seconds": 1.5, "evaluation": 3.0}
        return {"problem": "cartpole", "side": "x", "seed": seed, "steps": steps, "steps_done": 900, **rest}

    (row,) = summarise([run(0, 700), run(1, None)], PROBLEMS)
    assert (row["reached"], row["seeds"], row["steps"][0]) == (1, 2, 800.0)
    assert "| 1 of 2 | > 800 ± " in table([row])
    assert "| 2 of 2 | 700 ± " in table(summarise([run(0, 700), run(1, 700)], PROBLEMS))


@pytest.mark.slow
def test_the_command_trains_and_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning.importlib.util, "find_spec", lambda name: None)  # no Stable-Baselines3
    file = tmp_path / "learning.json"
    flags = ["--seeds", "1", "--budget", "600", "--core", "-1", "--evaluation-episodes", "2", "--json", str(file)]
    learning.main(["--problems", "cartpole", *flags])
    out = capsys.readouterr().out
    assert out.startswith("Stable-Baselines3 is not installed")
    assert "| cartpole (475) | longstride | 0 of 1 | > 768 ± 0 |" in out  # three rollouts of 8 x 32
    (run,) = json.loads(file.read_text())["runs"]
    assert run["steps"] is None
    assert 0 < run["setup_seconds"] < run["seconds"]
    assert 1 <= run["evaluation"] <= 500
