"""A main metric that counts as better where returns say that it is worse."""

import io

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride.config import Config
from longstride.settings import Settings
from longstride.simulators.inventory import LostSales
from longstride.training.assembly.run import build_run
from longstride.training.evaluation.direction import DirectionCheck, contradicts
from longstride.training.run_directory.metrics_log import MetricsLog


class Cost(LostSales):
    """A cost without the sentence that lower is better, as one forgets it."""

    main_metric_lower_is_better = False


def policies(seed, correlation, count=12):
    rng = np.random.default_rng(seed)
    returns = rng.normal(size=count)
    values = correlation * returns + np.sqrt(1.0 - correlation**2) * rng.normal(size=count)
    return set(zip(returns.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lower_is_better", [True, False])
def test_only_what_contradicts_closely_is_named(seed, lower_is_better):
    wrong = 1.0 if lower_is_better else -1.0
    assert contradicts(policies(seed, 0.999 * wrong), lower_is_better)
    assert not contradicts(policies(seed, -0.999 * wrong), lower_is_better)
    assert not contradicts(policies(seed, 0.3 * wrong), lower_is_better)
    assert not contradicts(policies(seed, wrong, 3), lower_is_better)


def test_equal_and_missing_figures_say_nothing():
    assert not contradicts({(1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (4.0, 5.0)}, True)
    assert not contradicts({(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, float("nan"))}, True)
    check = DirectionCheck(Cost())
    assert [check.see({"metrics": {"return": {"mean": float(n)}}}) for n in range(9)] == [None] * 9


@pytest.mark.parametrize("simulator", [LostSales, Cost])
def test_a_run_says_it_once(simulator, tmp_path, monkeypatch):
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    options = {"simulator": f"{__name__}:{simulator.__name__}", "run_directory": str(tmp_path / "run"), "device": "cpu"}
    sizes = {"actor_hidden_size": 16, "critic_hidden_size": 16, "evaluate_every": 3, "evaluation_episodes": 4}
    config = Config(**options, **sizes, simulator_options={"max_steps": 5000}, training_episodes=2, seed=1)
    run, console = build_run(Settings(config), False, lambda text: None), Console(file=io.StringIO(), width=400)
    run.train(console, lambda: False)
    said = console.file.getvalue().count("set main_metric_lower_is_better = True in Cost")
    assert said == (simulator is Cost)
