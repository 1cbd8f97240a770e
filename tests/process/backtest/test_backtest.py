"""Backtests of logs with known truth: the parts, what is staged, and figures that are as predicted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.generated_logs import desk_log, log_of, written
from oracles.two_class_log import write_log

from longstride.cli import main
from longstride.errors import UserError
from longstride.process.backtest.content import Changed, trust
from longstride.process.backtest.parts import HOUR, cut, staged, there
from longstride.process.backtest.predict import FIGURES, Prediction, actual_of
from longstride.process.mining.mine_scenario import mine_scenario

WEEK = 168.0


def test_a_cut_keeps_each_case_on_one_side():
    log = desk_log(0)
    parts = cut(log, 6 * WEEK * HOUR)
    first, last = log.case_times()
    assert len(parts.before.cases) == (last <= 6 * WEEK * HOUR).sum()
    assert parts.counted.sum() == (first >= 6 * WEEK * HOUR).sum()
    assert (parts.after.case_times()[0] / HOUR >= parts.since).tolist() == parts.counted.tolist()
    assert parts.since == WEEK  # a week of warm-up, from a Monday on
    assert parts.after.monday.weekday() == 0


def test_a_part_with_few_cases_is_refused():
    with pytest.raises(UserError, match=r"cases lie after 2024-.*; set another --share"):
        cut(desk_log(0), 9.9 * WEEK * HOUR)


def test_the_figures_of_a_log_by_hand():
    """Two cases of two tasks, the second after half an hour of waiting for the person."""
    rows = np.array([(0, 0, 0, 9.0, 10.0), (1, 0, 1, 9.0, 9.5), (1, 1, 0, 10.0, 11.0), (0, 1, 1, 10.0, 13.0)])
    found = actual_of(log_of(*rows.T), np.array([True, True]), 0.0)
    assert found["mean"] == pytest.approx((4.0 + 2.0) / 2)
    assert found["work"] == pytest.approx(5.5 / 6)
    assert found["throughput"] == pytest.approx(2 / (13.0 / WEEK))
    assert actual_of(log_of(*rows.T), np.array([True, False]), 0.0)["mean"] == pytest.approx(4.0)


def test_the_staff_of_the_later_part_is_staged():
    """A new clerk does what the typical one does, and one who has left does nothing."""
    log = desk_log(1, 8, clerks=3)
    parts = cut(log, 4 * WEEK * HOUR)
    after = replace(parts.after, resources=tuple(name if name != "b2" else "new" for name in parts.after.resources))
    model = mine_scenario(parts.before, name="before").scenario
    made = staged(model, there(after))
    assert sorted(made.resources) == ["b0", "b1", "new"]
    assert made.arrivals.times is not None and len(made.arrivals.times) == len(after.cases)
    times = {(s.activity, s.resource): s.quantiles for s in made.service}
    assert times["a1", "new"] in [s.quantiles for s in model.service]
    assert made.logged is None


def test_what_stays_the_same_is_predicted(tmp_path, capsys):
    log = written(tmp_path, desk_log(21, 16))
    flags = ["--resamples", "5", "--evaluation-episodes", "10", "--run-directory", str(tmp_path / "run")]
    assert main(["backtest", log, "--simulation-threads", "1", *flags]) == 0
    content = json.loads((tmp_path / "run" / "backtest.json").read_text())
    assert content["figures"].keys() == set(FIGURES)
    assert sum(figure["held"] for figure in content["figures"].values()) >= 5
    assert content["changes"] == []
    assert content["sentences"][-1].startswith("This log can be trusted for the ")
    assert content["sentences"][-1].endswith("No change of volume or staffing in it tests a what-if.")
    report = (tmp_path / "run" / "backtest.md").read_text()
    assert report.startswith("# Backtest of desk.csv\n\n| figure | predicted |")
    assert "Backtest of desk.csv" in capsys.readouterr().out


def test_a_change_of_volume_is_predicted_from_before_it(tmp_path):
    log = written(tmp_path, desk_log(4, 20, lambda week: 1.5 if week < 10 else 0.9))
    flags = ["--resamples", "5", "--evaluation-episodes", "10", "--run-directory", str(tmp_path / "run")]
    assert main(["backtest", log, "--simulation-threads", "1", *flags]) == 0
    (change,) = json.loads((tmp_path / "run" / "backtest.json").read_text())["changes"]
    assert change["points"][0]["what"] == "volume"
    found = change["mean_cycle_time_percent"]
    assert found["low"] < found["actual"] < found["high"]
    assert found["predicted"] > 5.0


def test_a_backtest_takes_classes_of_cases(tmp_path, capsys):
    """With classes the figures of the log are the same, and each class keeps its own flow in the prediction."""
    write_log(tmp_path / "log.csv", 400, seed=1)
    flags = ["--simulation-threads", "1", "--resamples", "0", "--evaluation-episodes", "5"]
    found = {}
    for classes in ("", "segment"):
        run = ["backtest", str(tmp_path / "log.csv"), "--run-directory", str(tmp_path / f"run {classes}"), *flags]
        assert main([*run, *(["--classes", classes] if classes else [])]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("Classes of cases: plain and gold. The whole log" in said) is bool(classes)
        found[classes] = json.loads((tmp_path / f"run {classes}" / "backtest.json").read_text())["figures"]
    for name in FIGURES:
        assert found["segment"][name]["actual"] == pytest.approx(found[""][name]["actual"])
    assert found["segment"]["mean"]["predicted"] != found[""]["mean"]["predicted"]
    assert found["segment"]["mean"]["held"]


def test_bad_input_is_one_sentence(tmp_path, capsys):
    log = written(tmp_path, desk_log(0, 2))
    for flags, said in (
        ([], "needs a log: longstride backtest my_log.csv"),
        ([log, "--share", "0.95"], "--share is 0.95; expected a share of the log's time from 0.2 to 0.9"),
        ([log, "--resamples", "2"], "--resamples is 2; expected 0, or 5 or more"),
        ([log, "--share", "0.9"], "and a backtest needs 30; set another --share"),
        ([str(tmp_path / "none.csv")], "none.csv"),
    ):
        assert main(["backtest", *flags]) == 2
        out = " ".join(capsys.readouterr().err.split())
        assert out.startswith("error: ") and said in out and out.count("error:") == 1


def prediction(predicted, low, high, actual):
    return Prediction(predicted, low, high, 0.5, actual)


def test_trust_tells_near_from_vague_and_missed():
    near, vague, missed = (
        prediction(10.0, 8.0, 12.0, 10.5),
        prediction(10.0, 5.0, 20.0, 15.0),
        prediction(10, 9, 11, 15),
    )
    shares = dict.fromkeys(("work", "people", "external"), prediction(0.3, 0.2, 0.4, 0.35))
    found = {"mean": near, "median": vague, "p90": missed, "throughput": near, **shares}
    said = trust(found, [Changed([], "2024-01-01", prediction(10.0, 0.0, 30.0, 18.0))], 0.15)
    assert "for the mean cycle time, the share of work, the share of waiting for people" in said
    assert "says little about the median cycle time" in said
    assert "Do not trust it for the p90 of the cycle time" in said
    assert "came true as predicted" in said
    wrong = trust(found, [Changed([], "2024-01-01", prediction(10.0, 0.0, 30.0, -18.0))], 0.15)
    assert "did not come true" in wrong
