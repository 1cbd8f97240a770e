"""When a run is close to its optimum, what its evaluation costs, and the table, against hand-computed numbers."""

import io

import numpy as np
import pytest
from rich.console import Console

from benchmarks import to_optimum
from benchmarks.optima import PROBLEMS
from benchmarks.peers.gap import GapTask, GapWatch, mean_cost
from longstride.simulators.inventory import LostSales

SHORT = LostSales(lead_time=2, penalty=4, max_steps=2_000)


def always(order):
    return lambda observations, masks: np.full(len(observations), order)


def task(**changes):
    values = {"simulator": "lost_sales", "options": {}, "settings": {}, "seed": 0, "optimum": 4.40, "episodes": 4}
    return GapTask(**values | {"every": 100} | changes)


def test_ordering_nothing_loses_all_demand():
    """Demand of mean 5 with penalty 4 costs 20 a period, once the first stock is gone."""
    assert mean_cost(SHORT, always(0), 4) == pytest.approx(20.0, rel=0.03)


def test_masks_reach_the_policy_and_every_episode_has_its_own_seed():
    seen = []

    def first_allowed(observations, masks):
        seen.append(masks.copy())
        return masks.argmax(axis=1)

    assert mean_cost(SHORT, first_allowed, 3) == mean_cost(SHORT, always(0), 3)
    assert seen[0].shape == (3, SHORT.action_space.n)
    assert mean_cost(SHORT, always(0), 1) != mean_cost(SHORT, always(0), 3)


def test_a_policy_is_looked_at_when_it_is_due_and_its_time_does_not_count(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    gaps = iter([0.30, 0.04])

    def cost(simulator, choose, episodes):
        clock[0] += 50.0
        return 4.40 * (1 + next(gaps))

    monkeypatch.setattr("benchmarks.peers.gap.mean_cost", cost)
    watch = GapWatch(task(), SHORT, _begin=0.0)
    clock[0] = 7.0
    assert not watch.look(99, lambda: always(0))
    assert watch.curve == []
    assert not watch.look(120, lambda: always(0))
    assert not watch.look(219, lambda: always(0))  # 100 steps after the last one, not at multiples of 100
    assert watch.look(220, lambda: always(0))
    assert watch.look(900, lambda: always(0))  # nothing is played any more
    assert watch.steps == 220
    assert watch.curve == [(120, pytest.approx(0.30)), (220, pytest.approx(0.04))]
    assert watch.result(300)["seconds"] == pytest.approx(7.0)


def test_the_table_has_medians_of_the_runs_that_came_close():
    curves = {0: [(50, 0.2), (100, 0.04)], 1: [(50, 0.3), (100, 0.1)], 2: [(50, 0.05)]}
    runs = [
        {"problem": "tandem", "side": "sb3", "seed": seed, "steps": steps, "seconds": 10.0 * steps, "curve": curve}
        for (seed, curve), steps in zip(curves.items(), (100, 0, 50), strict=True)
    ]
    runs[1]["steps"] = None
    text = io.StringIO()
    Console(file=text, width=140).print(to_optimum.table_of(runs))
    for cell in ("2 of 3", "75", "750", "+10.0%"):
        assert cell in text.getvalue()


def test_sides_take_turns_and_share_a_task():
    assert to_optimum.turned(["a", "b", "c"], 4) == ["b", "c", "a"]
    options = to_optimum.parse(["--core", "-1"])
    for name in to_optimum.COMPARED:
        ours, theirs = (to_optimum.task_of(name, side, 1, options) for side in ("longstride", "sb3"))
        assert ours == theirs
        assert ours.simulator == PROBLEMS[name][0]
        assert ours.core is None


@pytest.mark.slow
def test_longstride_trains_until_it_is_close(tmp_path):
    """A gap that the first policy has already ends the run at the first look."""
    result = to_optimum.train("longstride", task(within=100.0, budget=100_000, every=8_000, episode_steps=500))
    assert result["steps"] == 8_192
    assert result["curve"][0][0] == 8_192
