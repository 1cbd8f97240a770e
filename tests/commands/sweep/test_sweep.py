"""--mode sweep: common and held-out seeds, what fails or is interrupted, limits, commands as they are printed."""

import json
import math
import os
import re
import shlex
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("optuna")

from commands.test_cli import ROOT, SMALL, TOYS, refused  # noqa: F401
from helpers.pages import ReportPage
from scipy.stats import ttest_rel

from longstride.cli import main
from longstride.commands import comparison_folder as folder
from longstride.commands.sweep.limits import Limits
from longstride.commands.sweep.report import against_base
from longstride.commands.sweep.runs import Result, parts_done
from longstride.own_files.marker import mark_folder

BANDIT = ["--simulator", f"{TOYS}:Bandit"]
METRICS = ("return", "mean_cycle_time")  # main metrics of the bandit and of a process
RATE = ("--sweep", "learning_rate_actor=1e-5..1e-1 log")


def sweep(directory, *flags):
    return main(["--mode", "sweep", *BANDIT, "--run-directory", str(directory), *map(str, flags)])


def result(directory):
    return json.loads((directory / "sweep.json").read_text())


def record(iteration, value, evaluated=None):
    return {
        **{"iteration": iteration, "steps": 10, "return": value, "metrics": {}},
        **{"simulation_seconds": 1.0, "transfer_seconds": 0.0, "update_seconds": 1.0},
        "evaluation": None if evaluated is None else {"metrics": {name: {"mean": evaluated} for name in METRICS}},
    }


class FakeRuns:
    """In place of fresh processes: writes what a training leaves, with a score that its values and seed decide."""

    def __init__(self):
        self.trained, self.interrupt_at, self.fail_at, self.took = [], None, None, 60.0

    def __call__(self, arguments, log, stop=None):
        given = {flag[2:]: value for flag, value in pairwise(arguments) if flag.startswith("--")}
        directory, seed, rate = given["run-directory"], int(given["seed"]), given.get("learning-rate-actor", "3e-4")
        assert given["evaluate-every"] == "1000000000"
        self.trained.append((os.path.basename(directory), seed, rate))
        log.write_text("Plan:\n")
        os.makedirs(directory, exist_ok=True)
        mark_folder(Path(directory), "run")
        if len(self.trained) == self.interrupt_at:
            raise KeyboardInterrupt
        if len(self.trained) == self.fail_at:
            log.write_text("error: Memory ran out.\n")
            return 2, self.took
        with open(f"{directory}/config.json", "w") as file:
            json.dump({"values": {"training_episodes": 10, "learning_rate_actor": float(rate)}}, file)
        score = self.score(rate, seed)
        for iteration in range(1, 11):
            with open(f"{directory}/metrics.jsonl", "a") as file:
                file.write(json.dumps(record(iteration, score - 10 + iteration, score if iteration == 10 else None)))
                file.write("\n")
            if stop is not None and iteration < 10 and stop():
                return -9, self.took
        return 0, self.took

    @staticmethod
    def score(rate, seed):
        """Return a score that is best at a rate of 0.01, with luck of the seed and the rate."""
        luck = zlib.crc32(f"{rate} {seed}".encode()) / 2**32
        return 100.0 - (math.log10(float(rate)) + 2) ** 2 + luck


@pytest.fixture
def fake_runs(monkeypatch):
    fake = FakeRuns()
    monkeypatch.setattr(folder, "run_fresh", fake)
    return fake


def test_trials_share_a_seed_and_the_best_are_compared_on_others(tmp_path, fake_runs, capsys):
    flags = (*RATE, "--trials", 12, "--held-out-seeds", 3, "--seed", 5, "--no-pruning", "--num-epochs", 2)
    assert sweep(tmp_path / "sweep", *flags) == 0
    out = capsys.readouterr().out
    names = [f"trial-{n:04d}" for n in range(12)]
    assert [(name, seed) for name, seed, _ in fake_runs.trained[:13]] == [(name, 5) for name in ("base", *names)]
    found = result(tmp_path / "sweep")
    scores = {t["number"]: t["score"] for t in found["trials"]}
    best = sorted(scores, key=scores.get)[::-1][:2]
    assert [f["trial"] for f in found["held_out"]["finalists"]] == best
    assert found["best"] == best[0]
    again = [(f"{name}-seed-{seed}", seed) for seed in (6, 7, 8) for name in ("base", *(names[n] for n in best))]
    assert [(name, seed) for name, seed, _ in fake_runs.trained[13:]] == again
    rates = {t["number"]: t["params"]["learning_rate_actor"] for t in found["trials"]}
    assert {rate for name, _, rate in fake_runs.trained if name.startswith(f"trial-{best[0]:04d}")} == {
        str(rates[best[0]])
    }
    assert abs(math.log10(rates[best[0]]) + 2) < 0.7, "near the best rate"
    for finalist in found["held_out"]["finalists"]:
        own = [fake_runs.score(str(rates[finalist["trial"]]), seed) for seed in (6, 7, 8)]
        base = [fake_runs.score("3e-4", seed) for seed in (6, 7, 8)]
        assert list(finalist["scores"].values()) == pytest.approx(own)
        interval = ttest_rel(own, base).confidence_interval(0.95)
        verdict = finalist["verdict"]
        assert [verdict["low"], verdict["high"]] == pytest.approx([interval.low, interval.high])
        assert verdict["verdict"] == ("better" if interval.low > 0 else "no difference shown")
    assert "RATE_ACTOR: 1e-5..1e-1 log." in out
    assert "12 trials: 12 complete." in out
    assert f"Trial {best[0]} on seeds that no trial had: better than the base settings (" in out


def test_an_interrupted_sweep_goes_on_with_the_remaining_trials(tmp_path, fake_runs, capsys):
    flags = (*RATE, "--trials", 6, "--held-out-seeds", 2, "--finalists", 1)
    assert sweep(tmp_path / "whole", *flags) == 0
    whole = list(fake_runs.trained)
    fake_runs.trained.clear()
    for interrupt_at in (1, 4, 11):
        fake_runs.interrupt_at = interrupt_at
        assert sweep(tmp_path / "sweep", *flags) == 130
        assert "Finished trials are kept" in capsys.readouterr().out
    fake_runs.interrupt_at = None
    (tmp_path / "sweep" / "journal.log").open("ab").write(b'{"op')
    assert sweep(tmp_path / "sweep", *flags) == 0
    assert "6 trials, 6 of them made before." in capsys.readouterr().out
    kept = [run[1:] for n, run in enumerate(fake_runs.trained, 1) if n not in (1, 4, 11)]
    assert kept == [run[1:] for run in whole]
    assert not (tmp_path / "sweep" / "trial-0001").exists(), "repeated as trial 2"
    assert [t["score"] for t in result(tmp_path / "sweep")["trials"]] == [
        t["score"] for t in result(tmp_path / "whole")["trials"]
    ]
    made = len(fake_runs.trained)
    assert sweep(tmp_path / "sweep", *flags[:2], "--trials", 8, *flags[4:]) == 0
    assert len(fake_runs.trained) - made in (2, 4), "two more trials, and their finalist if it is another one"


def test_no_cell_is_cut_on_a_narrow_terminal(tmp_path, fake_runs, capsys, monkeypatch):
    flags = (*RATE, "--trials", 2, "--held-out-seeds", 2)
    assert sweep(tmp_path, *flags) == 0
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    assert sweep(tmp_path, *flags) == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if line[:1] in "┏┃┡│└"]
    assert max(map(len, table)) <= 60
    assert not any("…" in line for line in table)
    words = {cell.strip() for line in wide.splitlines() if line[:1] in "┃│" for cell in re.split("[┃│]", line)}
    assert words == {cell.strip() for line in table if line[:1] in "┃│" for cell in re.split("[┃│]", line)}


def test_a_trial_that_fails_is_recorded_and_the_sweep_goes_on(tmp_path, fake_runs, capsys):
    fake_runs.fail_at = 3
    assert sweep(tmp_path, *RATE, "--trials", 3, "--held-out-seeds", 0) == 0
    states = [(t["state"], t["error"]) for t in result(tmp_path)["trials"]]
    assert states == [("complete", ""), ("failed", "Memory ran out."), ("complete", "")]
    out = capsys.readouterr().out
    assert "Trial 1 (2 of 3) failed: Memory ran out." in out
    assert "3 trials: 2 complete, 1 failed." in out
    page = ReportPage(tmp_path / "sweep.html")
    assert "Memory ran out." in page.section("trials")
    assert page.pictures == 2


def test_base_settings_that_fail_end_the_sweep(tmp_path, fake_runs, refused):  # noqa: F811
    fake_runs.fail_at = 1
    message = refused("--mode", "sweep", *BANDIT, *RATE, "--run-directory", tmp_path)
    assert message == f"Training with the base settings failed: Memory ran out. All of it: {tmp_path}/base.log."
    assert len(fake_runs.trained) == 1


def test_poor_trials_are_given_up_unless_told_otherwise(tmp_path, fake_runs, capsys):
    flags = (*RATE, "--trials", 14, "--held-out-seeds", 0)
    assert sweep(tmp_path / "pruned", *flags) == 0
    assert "worse than the median after 30 % of it, given up." in capsys.readouterr().out
    trials = result(tmp_path / "pruned")["trials"]
    complete = []
    for trial in trials:  # the rule itself; the score at a part is the score at the end less the parts that are missing
        expected = fake_runs.score(str(trial["params"]["learning_rate_actor"]), 0)
        assert (trial["state"] == "pruned") == (len(complete) >= 5 and expected < np.median(complete))
        complete += [expected] if trial["state"] == "complete" else []
    assert len(complete) < 14
    assert sweep(tmp_path / "all", *flags, "--no-pruning") == 0
    assert {t["state"] for t in result(tmp_path / "all")["trials"]} == {"complete"}


def test_a_trial_that_is_over_is_not_given_up(tmp_path, fake_runs, monkeypatch):
    """Nothing is saved then, and its score is there."""
    seen = []
    inner = folder.run_fresh

    def looks_late(arguments, log, stop=None):
        code = inner(arguments, log)
        seen.append(stop is not None and stop())
        return code

    monkeypatch.setattr(folder, "run_fresh", looks_late)
    assert sweep(tmp_path, *RATE, "--trials", 9, "--held-out-seeds", 0) == 0
    assert seen == [False] * 10
    assert {t["state"] for t in result(tmp_path)["trials"]} == {"complete"}


def test_the_same_values_are_not_trained_twice(tmp_path, fake_runs, capsys):
    assert sweep(tmp_path, "--sweep", "batch_size=64,128", "--trials", 5, "--held-out-seeds", 0) == 0
    assert len(fake_runs.trained) == 3, "the base settings and each of the two"
    assert "so the same score" in capsys.readouterr().out
    trials = result(tmp_path)["trials"]
    assert len(trials) == 5
    assert len({(t["params"]["batch_size"], t["score"]) for t in trials}) == 2


def test_two_objectives(tmp_path, fake_runs, capsys):
    assert sweep(tmp_path, *RATE, "--trials", 4, "--held-out-seeds", 0, "--sweep-objective", "score,seconds") == 0
    out = capsys.readouterr().out
    assert "Trials are not pruned: Optuna prunes only if there is a single objective." in out
    (line,) = re.findall(r"^No trial is both better and faster than these: (.*)$", out, re.MULTILINE)
    found = result(tmp_path)
    assert [t["seconds"] for t in found["trials"]] == [20.0] * 4
    assert found["pareto_front"] == [found["best"]]
    assert line.startswith(f"trial {found['best']} (")


def test_time_is_kept_for_the_comparison(tmp_path, fake_runs, capsys):
    """Of an hour the base takes 1 minute and the comparison 2 x 2: 20 minutes have room for 15 trials of one."""
    flags = (*RATE, "--trials", 50, "--held-out-seeds", 2, "--finalists", 1, "--no-pruning")
    assert sweep(tmp_path, *flags, "--sweep-minutes", 20) == 0
    assert "No time for another trial and the comparison: 15 of 50 are made." in capsys.readouterr().out
    assert len(fake_runs.trained) == 20
    assert sweep(tmp_path, *flags, "--sweep-minutes", 22) == 0
    assert len(result(tmp_path)["trials"]) == 17, "time counts over all calls"


@pytest.mark.parametrize(
    ("score", "base", "words"), [(500, 22, "+2,173 %"), (99, 100, "-1.0 %"), (-30, -10, "-20.0"), (1, 0, "+1.00")]
)
def test_differences_in_per_cent(score, base, words):
    assert against_base(score, Result(base, 1.0, 1, 1.0)) == words


def test_limits():
    limits = Limits(trials=10, minutes=10.0, finalists=2, held_out_seeds=3)
    assert limits.another_trial(ended=9, spent=0.0, each=60.0)
    assert not limits.another_trial(ended=10, spent=0.0, each=60.0)
    assert not limits.another_trial(ended=0, spent=1.0, each=60.0), "10 minutes are one trial and nine for the end"
    assert Limits().another_trial(ended=0, spent=1e9, each=1e9)


def test_the_horizon_has_an_effect_on_trials(tmp_path, fake_runs, refused, monkeypatch):  # noqa: F811
    """A policy that starts from a rule has a GAMMA of its own, which HORIZON does not change."""
    given = []
    inner = folder.run_fresh
    monkeypatch.setattr(
        folder, "run_fresh", lambda arguments, *rest: given.append(arguments) or inner(arguments, *rest)
    )
    assert sweep(tmp_path, "--sweep", "horizon=50..500 log", "--trials", 1, "--held-out-seeds", 0) == 0
    assert ["--gamma" in arguments for arguments in given] == [False, True]
    command = ("--mode", "sweep", *BANDIT, "--sweep", "horizon=50..500", "--gamma", "0.9")
    assert "horizon has no effect if GAMMA is set" in refused(*command)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--mode sweep needs the settings to vary: --sweep "),
        (["--sweep", "gama=0..1"], "--sweep: gama is unknown; did you mean GAMMA?"),
        (["--sweep-file", "none.toml"], "Cannot read --sweep-file none.toml: No such file or directory."),
        ([*RATE, "--trials", "0"], "--trials: 0 should be 1 or more."),
        ([*RATE, "--trials", "x"], "Argument --trials: invalid int value: 'x'."),
        ([*RATE, "--sweep-minutes", "0"], "--sweep-minutes: 0 should be more than 0."),
        ([*RATE, "--sweep-minutes", "nan"], "--sweep-minutes: nan should be more than 0."),
        ([*RATE, "--finalists", "0"], "--finalists: 0 should be 1 or more."),
        ([*RATE, "--held-out-seeds", "-1"], "--held-out-seeds: -1 should be 0 or more."),
        ([*RATE, "--held-out-seeds", "1"], "--held-out-seeds: a single seed gives no interval"),
        ([*RATE, "--sweep-objective", "time"], "Argument --sweep-objective: invalid choice: 'time'"),
        ([*RATE, "--time-budget", "1h"], "--mode sweep compares trainings of one length"),
        ([*RATE, "--gamma", "2"], "--gamma: '2' should be"),
        ([*RATE, "--pairs", "2"], "--pairs does not go with --mode sweep."),
        ([*RATE, "--simulator", "nowhere.py:Nothing"], "There is no simulator file nowhere.py."),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(flags, message, tmp_path, fake_runs, refused):  # noqa: F811
    command = ("--mode", "sweep", *BANDIT, "--run-directory", tmp_path / "sweep", *flags)
    assert refused(*command).startswith(message)
    assert not fake_runs.trained
    assert not (tmp_path / "sweep").exists()


def test_flags_of_a_sweep_go_with_no_other_mode(refused):  # noqa: F811
    assert refused("--mode", "train", *RATE).startswith("--sweep does not go with --mode train.")
    assert refused("--mode", "ab", "--trials", "2").startswith("--trials does not go with --mode ab.")


def test_another_sweep_or_a_run_is_not_mixed_into_one(tmp_path, fake_runs, refused):  # noqa: F811
    end = ("--trials", 1, "--held-out-seeds", 0)
    assert sweep(tmp_path, *RATE, *end) == 0
    command = ("--mode", "sweep", *BANDIT, "--run-directory", tmp_path, *end)
    assert "is of another sweep" in refused(*command, "--sweep", "learning_rate_actor=1e-4..1e-1 log")
    assert "is of another sweep" in refused(*command, *RATE, "--num-epochs", 2)
    assert "is of another sweep" in refused(*command, *RATE, "--seed", 2)
    (tmp_path / "sweep.json").write_text("{")
    assert "sweep.json is damaged" in refused(*command, *RATE)
    (tmp_path / "checkpoints" / "last").mkdir(parents=True)
    (tmp_path / "checkpoints" / "last" / "checkpoint.json").write_text("{}")
    (tmp_path / "sweep.json").unlink()
    assert "already holds a run" in refused(*command, *RATE)
    mark_folder(tmp_path / "two", "sweep")
    (tmp_path / "two" / "journal.log").write_text("no JSON\n{}\n")
    message = refused("--mode", "sweep", *BANDIT, "--run-directory", tmp_path / "two", *end, *RATE)
    assert "journal.log is damaged" in message
    assert len(fake_runs.trained) == 2


def test_without_optuna_a_sentence_names_the_extra(tmp_path, fake_runs, refused, monkeypatch):  # noqa: F811
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    message = refused("--mode", "sweep", *BANDIT, *RATE, "--run-directory", tmp_path / "sweep")
    assert message == '--mode sweep needs Optuna: pip install "longstride[sweep]".'
    assert not (tmp_path / "sweep").exists()


def test_the_parts_of_a_training():
    """By hand: parts of a run of 8 iterations, four parts, with and without evaluations."""
    records = [record(i, float(i)) for i in range(1, 9)]
    assert parts_done(records, 8, "return", 4) == {1: 1.5, 2: 3.5, 3: 5.5}
    assert parts_done(records[:3], 8, "return", 4) == {1: 1.5}
    assert parts_done(records, None, "return", 4) == {}
    growing = [{**records[0], "share_done": 0.6}, {**records[1], "share_done": 0.8}]
    assert parts_done(growing, 8, "return", 4) == {1: 1.0, 2: 1.0, 3: 2.0}
    judged = [record(1, 1.0), record(2, 2.0, 50.0), record(3, 3.0), record(4, 4.0), record(5, 5.0, 60.0)]
    assert parts_done(judged, 8, "return", 8) == {1: 1.0, 2: 50.0, 3: 50.0, 4: 50.0, 5: 60.0}
    without = [{**record(1, 1.0), "return": None}, record(2, 2.0)]
    assert parts_done(without, 8, "return", 8) == {1: 2.0, 2: 2.0}
    assert parts_done([{**record(1, 1.0), "metrics": {"cash": 7.0}}], 2, "cash", 2) == {1: 7.0}


def test_real_trainings_have_a_score_and_the_command_that_is_printed_works_as_typed(tmp_path, monkeypatch, capsys):
    """In this process, where kernels are compiled once."""
    monkeypatch.setattr(folder, "run_fresh", lambda arguments, log, _: (main(arguments), 1.0 + log.write_text("")))
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "my runs"
    flags = (*SMALL[2:], "--training-episodes", 2, "--evaluation-episodes", 2, *RATE, "--held-out-seeds", 0)
    assert sweep(directory, *flags, "--trials", 1) == 0
    found, last = result(directory), (directory / "trial-0000" / "metrics.jsonl").read_text().splitlines()[-1]
    (trial,) = found["trials"]
    assert trial["score"] == json.loads(last)["evaluation"]["metrics"]["return"]["mean"]
    assert json.loads(last)["evaluation"]["episodes"] == 2
    assert trial["seconds"] > 0
    out = capsys.readouterr().out
    assert "Nothing was compared on other seeds" in out
    (command,) = re.findall(r"To train with the settings of trial 0: .*?( --mode train .*)$", out, re.MULTILINE)
    assert main(shlex.split(command)) == 0
    values = json.loads((directory / "best-0000" / "config.json").read_text())["values"]
    assert values["learning_rate_actor"] == trial["params"]["learning_rate_actor"]
    assert (values["actor_hidden_size"], values["seed"], values["evaluate_every"]) == (16, 0, -1)


def test_the_documented_sweep(tmp_path, fake_runs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "how-to" / "search-hyperparameters.md").read_text(encoding="utf-8")
    commands = [shlex.split(command) for command in re.findall(r"^longstride (--mode sweep .*)$", text, re.MULTILINE)]
    (file,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "space.toml").write_text(file)
    assert len(commands) == 2
    for command in commands:
        assert main([*command, "--trials", "1", "--held-out-seeds", "0"]) == 0
