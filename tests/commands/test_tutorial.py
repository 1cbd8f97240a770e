"""docs/tutorials/your-own-simulator.md does what it says, block by block, from a folder of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.documentation import ROOT, blocks, commands, page

pytest.importorskip("pydantic")

from longstride.cli import main

TUTORIAL = page("tutorials/your-own-simulator.md")
*RULES, ACT = blocks(TUTORIAL, "python")
CODE = "\n\n".join(RULES)
CHECK, TRAIN, EVALUATE, OTHER_LEAD_TIME = commands(TUTORIAL)


def run(words, folder):
    """Run a command of the tutorial in a folder; return what it printed, errors included."""
    program = {
        "python": [sys.executable],
        "longstride": [
            sys.executable,
            "-c",
            "from longstride.cli import installed as i; raise SystemExit(i())",
        ],
    }[words[0]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src" / "core")}
    done = subprocess.run([*program, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def here(words):
    """Run a command of the tutorial in this process, which saves the start of another; return its exit code."""
    assert words[0] == "longstride"
    return main(words[1:], ROOT / "hyperparameters.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the tutorial's inventory.py and nothing of the project."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "inventory.py").write_text(CODE)
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """Return the folder after the tutorial's training."""
    assert "Compare the policy with" in run(TRAIN, folder)
    return folder


def costs(path):
    policies = json.loads(path.read_text())["policies"]
    return {name: metrics["cost"]["mean"] for name, metrics in policies.items()}


def test_the_simulator_passes_the_check(folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(folder)
    exec(CHECK[2], {})
    monkeypatch.delitem(sys.modules, "inventory")
    assert capsys.readouterr().out == "[]\n"


def test_the_mistake_gets_its_sentence(tmp_path):
    correct, wrong = CODE, CODE.replace("        state.arriving[:] = 0\n", "", 1)
    assert wrong != correct
    (tmp_path / "inventory.py").write_text(wrong)
    (sentence,) = blocks(TUTORIAL, 'text title="Output of the check"')
    printed = run(CHECK, tmp_path).splitlines()[-1].replace(f"{tmp_path.resolve()}{os.sep}", "")
    assert printed == f"longstride.errors.SimulatorError: {sentence.rstrip()}"


@pytest.mark.slow
def test_the_policy_comes_close_to_the_optimum(trained, monkeypatch, capsys):
    """The standard errors of the means are 0.03 to 0.06; seeds of training differ by about 0.3."""
    monkeypatch.chdir(trained)
    assert here(EVALUATE) == 0
    assert list(table := costs(trained / "inventory" / "evaluation.json")) == [
        *("trained", "trained_sampled", "untrained", "rule_of_thumb", "optimal")
    ]
    assert table["optimal"] == pytest.approx(14.053, abs=0.3), "the cost that value iteration computes"
    assert table["rule_of_thumb"] > 17.0
    assert 13.7 < table["trained"] < 15.9
    assert 13.7 < table["trained_sampled"] < 15.9


@pytest.mark.slow
def test_the_policy_orders(trained, monkeypatch):
    monkeypatch.chdir(trained)
    space: dict = {}
    exec(ACT, space)
    assert 5 <= int(space["order"]) <= 30, "with 3 items the optimal rule orders 17"
    full = np.array([25.0, 0.0], np.float32)
    assert int(space["policy"].act(full)) == 0, "with 25 items it orders none"


def test_other_lead_times_come_from_the_command_line(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert here(OTHER_LEAD_TIME) == 0
    table = costs(folder / "evaluation.json")
    assert table["optimal"] == pytest.approx(13.137, abs=0.6), "the cost for lead time 0"
    assert table["rule_of_thumb"] > 15.5


def test_the_levels_are_those_of_the_text(folder):
    module: dict = {}
    exec(CODE, module)
    s, up_to, cost = module["best_levels"](module["Settings"](1))
    assert (s, up_to, round(cost, 2)) == (7, 20, 14.05)
    assert "`best_levels(Settings(1))` returns `(7, 20, 14.05...)`" in TUTORIAL
    for level, other in ((s - 1, up_to), (s + 1, up_to), (s, up_to - 1), (s, up_to + 1)):
        assert long_run_cost(module["Settings"](1), level, other) > cost
    assert long_run_cost(module["Settings"](1), s, up_to) == pytest.approx(cost, abs=1e-6)


def long_run_cost(settings, s, up_to):
    """Return the cost per period of a rule (s, S), by renewal theory: cost of a cycle over its length."""
    from scipy.stats import poisson

    def holding(level):
        return sum(
            poisson.pmf(d, settings.demand * (settings.lead_time + 1))
            * (settings.holding * max(level - d, 0) + settings.backorder * max(d - level, 0))
            for d in range(100)
        )

    chance = [poisson.pmf(d, settings.demand) for d in range(up_to - s)]
    periods = [0.0] * (up_to - s)  # expected periods of a cycle that begin at S - j
    for j in range(up_to - s):
        before = sum(periods[j - d] * chance[d] for d in range(1, j + 1))
        periods[j] = ((j == 0) + before) / (1.0 - chance[0])
    total = sum(n * holding(up_to - j) for j, n in enumerate(periods))
    return (settings.order + total) / sum(periods)
