"""Reports of simulators of one's own, with their metrics and figures, and of a Gymnasium environment."""

import json

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")
pytest.importorskip("html5lib")
pytest.importorskip("matplotlib")

from helpers.pages import ReportPage
from oracles.toy_simulators import Shop

from longstride.api.report import report_on
from longstride.config import Config
from longstride.simulators.described import described
from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.comparison import as_json
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.run_directory.plots import curve_of, plot_learning_curve


class DrawnShop(Shop):
    """The shop with units and figures of its own."""

    metric_units = {"cash": "crowns", "days": "days"}  # noqa: RUF012
    broken = False

    def figures(self, records):
        """Return cash over days of each policy."""
        from matplotlib.figure import Figure

        if self.broken:
            raise ValueError("no days")
        figure = Figure()
        for of in records.values():
            figure.add_subplot().plot([r["days"] for r in of], [r["cash"] for r in of])
        return {"Cash over days": figure}


def record(iteration, value, **more):
    metrics = {} if value is None else {"cash": value, "days": 20.0}
    return {
        **{"iteration": iteration, "steps": 100, "simulated_episodes": 1, "return": value, "mean_reward": 0.1},
        **{"simulation_seconds": 0.5, "update_seconds": 1.5, "metrics": metrics, "learning_rate": 3e-4, **more},
    }


@pytest.fixture
def directory(tmp_path):
    """A run of 12 iterations as its files tell of it, evaluated, without a checkpoint."""
    records = [record(i + 1, 10.0 + i, entropy=1.0 / (i + 1)) for i in range(12)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    config = {"values": {**Config().model_dump(), "training_episodes": 12}, "sources": {"training_episodes": "flag"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "plan.json").write_text(json.dumps({"batch_size": 64, "reasons": {"batch_size": "it is small"}}))
    played = {"trained": [5.0, 7.0, 6.0], "order_up": [8.0, 9.0, 8.5], "upper_bound": [20.0, 21.0, 19.0]}
    result = Evaluation(3, {name: [{"cash": c, "days": 9} for c in of] for name, of in played.items()})
    (tmp_path / "evaluation.json").write_text(json.dumps(as_json(result, DrawnShop())))
    return tmp_path


def test_a_simulator_of_ones_own_with_figures(directory):
    page = ReportPage(report_on(directory, DrawnShop()))
    assert page.text("p[@class='verdict worse']")[0].startswith(
        "Worse than the best heuristic, order_up: 6 crowns against 8.5 crowns cash (-29.4 %, 95 % interval "
    )
    rows = page.table("Policies on the same episodes")
    assert rows[0][:3] == ["policy", "cash, crowns", "against order_up"]
    assert rows[1][:3] == ["trained", rows[1][1], rows[1][2]] and rows[1][2].startswith("worse: -29.4 ± ")
    assert "Cash over days" in page.section("metrics")
    assert "Distribution over 3 episodes: trained and order_up" in page.section("metrics")
    assert page.text("section[@id='process']/h2") == []


def test_a_metric_that_no_episode_has_keeps_its_name_and_unit(directory):
    records = {name: [{"days": 9}] * 3 for name in ("trained", "order_up")}
    (directory / "evaluation.json").write_text(json.dumps(as_json(Evaluation(3, records), DrawnShop())))
    page = ReportPage(report_on(directory, DrawnShop()))
    assert page.table("Policies on the same episodes")[1][:2] == ["trained", "-"]
    assert page.text("div[@class='tile']/b")[0] == "- crowns"
    assert page.text("div[@class='tile']/span[2]")[0] == "cash"


def test_a_figure_that_fails_is_a_sentence_in_its_place(directory):
    simulator = DrawnShop()
    simulator.broken = True
    page = ReportPage(report_on(directory, simulator))
    assert "figures() of DrawnShop failed: ValueError: no days." in page.section("metrics")


def test_a_simulator_that_cannot_be_built_leaves_the_curve(directory):
    folder = directory / "checkpoints" / "last"
    folder.mkdir(parents=True)
    checkpoint = {"source": {"simulator": "nowhere.shop:Shop"}, "main_metric": "cash", "iteration": 12}
    (folder / "iteration-00000012.json").write_text(json.dumps(checkpoint))
    page = ReportPage(report_on(directory))
    sentence = (
        "The simulator nowhere.shop:Shop is not run for this page, so its units, verdicts and figures are missing."
    )
    assert sentence in page.text("p")
    assert "The simulator is not available." in page.section("evaluation")
    assert page.text("section[@id='learning']//h3") == ["Cash over the iterations"]


def test_a_simulator_that_is_not_run_shows_what_the_checkpoint_has_of_it(directory):
    folder = directory / "checkpoints" / "last"
    folder.mkdir(parents=True)
    checkpoint = {"source": {"simulator": "nowhere.shop:Shop"}, "main_metric": "cash", "iteration": 12}
    content = checkpoint | {"described": json.loads(json.dumps(described(DrawnShop())))}
    (folder / "iteration-00000012.json").write_text(json.dumps(content))
    page = ReportPage(report_on(directory))
    assert "The simulator nowhere.shop:Shop is not run for this page, so its figures are missing." in page.text("p")
    rows = page.table("Policies on the same episodes")
    assert rows[0][:3] == ["policy", "cash, crowns", "against order_up"]
    for broken in (
        {"main_metric": "cash"},
        {**content["described"], "bounds": 3},
        ["x"],
        {**content["described"], "labels": [1]},
    ):
        (folder / "iteration-00000012.json").write_text(json.dumps({**checkpoint, "described": broken}))
        page = ReportPage(report_on(directory))
        assert any("is not run for this page, so its units, verdicts" in text for text in page.text("p"))


def test_a_gymnasium_environment(tmp_path):
    pytest.importorskip("gymnasium")
    records = [record(i + 1, None, share_done=(i + 1) / 4) | {"return": 20.0 + i} for i in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    folder = tmp_path / "checkpoints" / "last"
    folder.mkdir(parents=True)
    source = {"simulator": "gymnasium:CartPole-v1", "options": {}}
    (folder / "iteration-00000003.json").write_text(json.dumps({"source": source, "main_metric": "return"}))
    page = ReportPage(report_on(tmp_path))
    said = page.text("p[@class='warning']")
    assert said[0] == "This run is not finished: it has done iteration 3."
    assert page.text("p[@class='verdict ']") == [
        "Not evaluated yet. In training the return went from 20.00 to 22.00 (single iterations)."
    ]
    assert "config.json is missing" in page.section("settings")


def test_the_interval_of_a_curve_is_that_of_the_iterations_around():
    """Values 1 .. 12 with a window of 5: mean 3 at the first three, Student's t of 1, 2, 3, 4, 5."""
    curve = curve_of([record(i + 1, float(i + 1)) for i in range(12)], "cash", "crowns")
    assert (curve.window, curve.unit) == (5, "crowns")
    assert curve.mean.tolist() == [3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]
    assert curve.high[0] - curve.mean[0] == pytest.approx(2.776445 * (2.5 / 5) ** 0.5)
    found = curve_of([record(1, None), record(2, None), record(3, 4.0)], "cash", "crowns")
    assert (found.metric, found.values.tolist()) == ("mean_reward", [0.1, 0.1, 0.1])


def test_the_picture_has_baselines_and_whole_iterations(directory, monkeypatch):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: seen.append(figure))
    assert plot_learning_curve(directory, "cash", "crowns") == f"Learning curve: {directory / 'learning_curve.png'}."
    (axes,) = seen[0].axes
    assert isinstance(axes, Axes)
    assert axes.get_title().startswith("Cash of ") and axes.get_ylabel() == "cash, crowns"
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["training, mean of 5 iterations", "order_up 8.5 crowns", "upper_bound 20 crowns"]
    seen[0].canvas.draw()
    assert all(tick == int(tick) for tick in axes.get_xticks())


def test_what_a_gpu_did_and_what_failed(directory):
    """Means over the iterations, by hand: 40 and 60 % busy, at most 3 GB; one fallback and two skipped steps."""
    gpu = {"samples": 4, "power_watts": 300.0, "sm_mhz": None, "throttled": 0, "reasons": []}
    phases = [{"updating": {**gpu, "utilisation": 20.0 * i, "memory_bytes": i * 10**9}} for i in (2, 3)]
    more = [{"gpu": phases[0], "skipped_steps": 2}, {"gpu": phases[1], "fallbacks": [{"reason": "NaN"}]}]
    records = [record(i + 1, 10.0, transfer_seconds=0.5, **of) for i, of in enumerate(more)]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    page = ReportPage(report_on(directory, DrawnShop()))
    assert page.table("The GPU")[1] == ["updating", "50", "300", "-", "3.00 GB"]
    assert [row[2] for row in page.table("Time of each phase")[1:]] == ["20.0 %", "60.0 %", "20.0 %", "100 %"]
    said = page.section("diagnostics")
    assert "Training went back to good parameters 1 time." in said and "2 steps of the optimiser were skipped" in said


def test_no_simulator_has_figures_unless_it_defines_them():
    assert not hasattr(Simulator, "figures")
