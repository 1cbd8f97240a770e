"""report.html: its numbers are those of the run directory, its HTML is valid, and a browser shows it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")
pytest.importorskip("html5lib")
pytest.importorskip("matplotlib")

from helpers.pages import ReportPage

from longstride.api.report import report_on
from longstride.cli import main
from longstride.process.hooks import with_hooks
from longstride.process.load import bundled_scenarios, find_scenario
from longstride.process.report.people import hours_of_day, utilisation_by_hour, work_by_activity
from longstride.process.report.section import cycle_times, day_of, mean_waiting, waiting_tasks
from longstride.process.report.trace import traces_of
from longstride.report.episodes import play_episodes
from longstride.training.evaluation.trained_policy import load_trained_policy

HYPERPARAMETERS = Path(__file__).resolve().parents[2] / "hyperparameters.py"
SMALL = {"training-episodes": 1, "num-envs": 1, "actor-hidden-size": 8, "critic-hidden-size": 8}
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of the loan desk, evaluated; and its report as it was before the evaluation."""
    directory = tmp_path_factory.mktemp("report") / "desk"
    flags = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGSTRIDE_REPORT", "on")
        assert main(["--mode", "train", *flags, "--run-directory", str(directory)], HYPERPARAMETERS) == 0
        shutil.copy(directory / "report.html", directory.parent / "before.html")
        evaluate = ["--mode", "evaluate", "--checkpoint", str(directory), "--policy", "spt,fifo"]
        assert main([*evaluate, "--evaluation-episodes", "2"]) == 0
    return directory


@pytest.fixture(scope="module")
def page(run):
    return ReportPage(run / "report.html")


@pytest.fixture(scope="module")
def traces(run):
    simulator = with_hooks(find_scenario("loan_desk"))
    return simulator, traces_of(simulator, play_episodes(simulator, load_trained_policy(run), 0))


def read(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_at_the_end_of_training_there_is_a_report_that_says_what_is_missing(run):
    before = ReportPage(run.parent / "before.html")
    assert "The policy has not been evaluated yet. This writes the table:" in before.section("evaluation")
    assert before.text("p[@class='verdict ']")[0].startswith("Not evaluated yet. In training the mean cycle time")
    assert "After a short run no episode is played. This shows who works when on what:" in before.section("process")


def test_the_table_has_the_numbers_of_the_evaluation(run, page):
    content = read(run / "evaluation.json")
    headers, *rows = page.table("Policies on the same episodes")
    assert headers[:3] == ["policy", "mean cycle time, h", "against spt"]
    shown = {row[0].removesuffix(" (bound)"): row[1:] for row in rows}
    assert list(shown) == list(content["policies"])
    assert "untrained" in shown
    for name, cells in shown.items():
        mean, half = (float(part.replace(",", "")) for part in cells[0].split(" ± "))
        value = content["policies"][name]["mean_cycle_time"]
        assert mean == pytest.approx(value["mean"] / 60, rel=2e-3)
        assert half == pytest.approx((value["high"] - value["low"]) / 120, rel=6e-2)
        if name in content["verdicts"]:
            verdict = content["verdicts"][name]
            assert cells[1].startswith(f"{verdict['verdict']}: {verdict['difference_percent']:+.3g} ± ")


def test_the_table_of_phases_has_the_seconds_of_metrics_jsonl(run, page):
    record = read(run / "metrics.jsonl")
    rows = {row[0]: row[1:] for row in page.table("Time of each phase")[1:]}
    names = "simulation", "update", "statistics", "checkpoint"
    assert [name.partition(" ")[0].rstrip("s:") for name in rows] == [
        "simulation",
        "update",
        "statistic",
        "checkpoint",
        "all",
    ]
    total = sum(record[f"{name}_seconds"] for name in names)
    assert rows["update"][1] == f"{100 * record['update_seconds'] / total:.1f} %"
    work = {row[0]: row[1] for row in page.table("Work")[1:]}
    assert work["environment steps"] == f"{record['steps']:,}"


def test_the_settings_are_those_that_differ_from_the_defaults(run, page):
    rows = {row[0]: row[1:] for row in page.table("Settings that are not the default")[1:]}
    expected = {name.replace("-", "_").upper(): str(value) for name, value in SMALL.items()}
    assert expected.items() <= {name: row[0] for name, row in rows.items()}.items()
    assert rows["ACTOR_HIDDEN_SIZE"] == ["8", "128", "flag, or set in Python"]
    sources = read(run / "config.json")["sources"]
    assert {name for name, row in rows.items() if row[2].startswith("flag")} == set(expected)
    assert all(sources[name.lower()] != "default" for name in rows)


def test_the_command_of_the_report_trains_the_same_bits_again(run, page, tmp_path):
    command = next(text for text in page.text("pre") if "--mode train" in text)
    words = command[command.index("--mode") :].split()
    words[words.index("--run-directory") + 1] = str(tmp_path / "again")
    assert main(words) == 0
    again, first = (read(folder / "metrics.jsonl") for folder in (tmp_path / "again", run))
    assert (again["policy_loss"], again["trajectory_sha256"]) == (first["policy_loss"], first["trajectory_sha256"])
    assert not (tmp_path / "again" / "report.html").exists()  # conftest.py switches it off


def test_nothing_comes_from_the_network(run):
    for path in (run / "report.html", run.parent / "before.html"):
        source = path.read_text()
        assert not re.search(r"https?:|//[a-z]|@import|<script|<link|<img|<iframe", source)
        assert set(re.findall(r"url\((.)", source)) <= {"#"}
        ids = re.findall(r'\bid="([^"]+)"', source)
        assert len(ids) == len(set(ids))
        assert {name for name in re.findall(r'(?:href="|url\()#([^")]+)', source)} <= set(ids)


def test_utilisation_has_one_definition(run, page, traces):
    """Time at work over time on duty: in the metrics of an episode, by person, by hour and by activity."""
    simulator, played = traces
    rows = page.table("Utilisation by person and hour of the day, %")
    for column, (name, trace) in enumerate(played.items(), 1):
        assert rows[0][column] == name
        use, mean = trace.metrics["utilisation"], trace.metrics["mean_utilisation"]
        work, on_duty = utilisation_by_hour(simulator, trace)
        assert work.sum(axis=1) / on_duty.sum(axis=1) == pytest.approx(use)
        assert work.sum() / on_duty.sum() == pytest.approx(mean)
        assert work_by_activity(simulator, trace).sum(axis=1) == pytest.approx(use)
        assert [row[column] for row in rows[1:]] == [f"{100 * share:.0f}" for share in (*use, mean)]


def test_the_trace_is_the_episode_of_the_evaluation(run, traces):
    """The same cases under every policy; cycle times and queues agree with what the simulator counted itself."""
    simulator, played = traces
    episodes = read(run / "evaluation.json")["per_episode"]
    for name, trace in played.items():
        assert trace.metrics["mean_cycle_time"] == episodes[name]["mean_cycle_time"][0]
        assert cycle_times(trace, simulator.scenario.warmup).mean() == pytest.approx(trace.metrics["mean_cycle_time"])
        assert len(trace.decisions) == trace.metrics["decisions"]
        assert np.array_equal(trace.arrivals, played["spt"].arrivals)
        first = np.unique(trace.decisions["time"], return_index=True)[1]  # of the decisions of one moment
        looked = trace.decisions[first[::50]]
        earlier = np.nextafter(looked["time"], 0)
        begun = waiting_tasks(trace, earlier)
        ready = np.searchsorted(np.sort(trace.tasks["enabled"]), looked["time"], "right")
        ready -= np.searchsorted(np.sort(trace.tasks["enabled"]), earlier, "right")
        ready += [(trace.waiting["enabled"] == time).sum() for time in looked["time"]]
        assert np.array_equal(begun + ready, looked["waiting"])
        overlap = trace.tasks[np.lexsort((trace.tasks["start"], trace.tasks["resource"]))]
        same = overlap["resource"][1:] == overlap["resource"][:-1]
        assert (overlap["start"][1:] >= overlap["finish"][:-1])[same].all()
        by_activity = sum(mean_waiting(trace, a) for a in range(len(simulator.scenario.activities)))
        times = (np.arange(200_000) + 0.5) * trace.end / 200_000
        assert by_activity == pytest.approx(waiting_tasks(trace, times).mean(), rel=0.01)
    begin, end, name = day_of(simulator, played["spt"])
    assert (begin % 1440, end - begin, name) == (0.0, 1440.0, "Monday of week 14")


def test_hours_of_the_day_against_counting_minutes():
    rng = np.random.default_rng(0)
    start = rng.integers(0, 5000, 40)
    end, people = start + rng.integers(0, 3000, 40), rng.integers(0, 3, 40)
    expected = np.zeros((3, 24))
    for person, first, last in zip(people, start, end, strict=True):
        for minute in range(first, last):
            expected[person, minute // 60 % 24] += 1 / 60
    assert hours_of_day(people, start / 60, end / 60, 3) == pytest.approx(expected)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (500, True)])
def test_a_browser_shows_it(run, tmp_path, width, dark):
    image = pytest.importorskip("PIL.Image")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},1600"]
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    shot = tmp_path / "page.png"
    address = (run / "report.html").as_uri()
    subprocess.run([BROWSER, *flags, f"--screenshot={shot}", address], check=True, capture_output=True, timeout=120)
    picture = image.open(shot).convert("L")
    assert picture.size[0] == width
    background = picture.getpixel((2, 2))
    assert background < 60 if dark else background > 200
    colours = picture.getcolors()
    assert len(colours) > 50  # text and tables are drawn


def test_without_matplotlib_the_page_says_how_to_get_pictures(run, tmp_path, monkeypatch):
    copied = shutil.copytree(run, tmp_path / "desk")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = ReportPage(report_on(copied))
    assert page.pictures == 0
    assert "matplotlib is not installed: pip install matplotlib" in page.text("p[@class='warning']")[0]
    assert page.table("Policies on the same episodes")


def test_several_runs_side_by_side(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    config = read(other / "config.json")
    config["values"] |= {"seed": 7, "training_episodes": 3}
    (other / "config.json").write_text(json.dumps(config))
    (other / "evaluation.json").unlink()
    first = shutil.copytree(run, tmp_path / "desk")
    assert main(["--mode", "report", "--run-directory", str(first), str(other)]) == 0
    assert f"Report: {first / 'comparison.html'}" in capsys.readouterr().out
    page = ReportPage(first / "comparison.html")
    assert [row[0] for row in page.table("The runs")[1:]] == ["desk", "other"]
    assert page.table("Settings")[1:] == [["TRAINING_EPISODES", "1", "3"], ["SEED", "0", "7"]]
    assert any(
        text.startswith("other: This run is not finished: it has done iteration 1 of 3.") for text in page.text("p")
    )
    assert page.pictures == 1


def test_a_run_that_was_interrupted_says_so_first(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "desk")
    config = read(copied / "config.json")
    config["values"]["training_episodes"] = 5
    (copied / "config.json").write_text(json.dumps(config))
    shutil.rmtree(copied / "checkpoints")
    (copied / "plan.json").write_text("{")
    page = ReportPage(report_on(copied))
    said = page.text("p[@class='warning']")
    assert said[0] == "This run is not finished: it has done iteration 1 of 5."
    assert any("plan.json is missing or damaged" in sentence for sentence in said)
    assert "There is no checkpoint, so nothing can be played." in said


def test_what_is_no_run_or_not_asked_for(tmp_path, capsys):
    assert main(["--mode", "report", "--run-directory", str(tmp_path)]) == 2
    assert "has no metrics.jsonl with an iteration" in capsys.readouterr().err
    assert main(["--mode", "report"]) == 2
    assert main(["--mode", "plan", "--run-directory", "a", "b"]) == 2
    assert "Unknown argument b; --run-directory takes several only with --mode report." in capsys.readouterr().err
    assert "loan_desk" in bundled_scenarios()
