"""docs/gpu_guide.md is true: its commands run, its lines are printed, its tables are those of the program."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_gpus import install, of_catalogue
from helpers.toy_runs import discounts_of, toy_episodes, toy_model, toy_updater

pytest.importorskip("pydantic")

from core.commands import cli, gpu_monitor
from core.commands.cli import main
from core.commands.doctor.command import CHECKS
from core.commands.plan.report import make_report
from core.config import Config, load_config
from core.hardware.detect import detect_machine
from core.hardware.gpu_sampler import GpuSampler
from core.hardware.planning.gpu_catalog import (
    CARDS,
    MODEL_FLOPS_UTILISATION,
    find_card,
    machine_with,
    tier_defaults,
    tier_of,
)
from core.hardware.planning.precision import FIRST_WITH, choose_precision
from core.learning.step_selection.execution_trial import ExecutionTrial, fastest, trial_lines
from core.simulators.loading import load_simulator
from core.training.display.messages import memory_lines, update_line
from core.training.display.utilization import UtilizationTracker
from core.training.failures import update_failure_lines

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "gpu_guide.md").read_text(encoding="utf-8")


def blocks(kind):
    return [body.splitlines() for body in re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)]


def commands_of_the_guide():
    found = [shlex.split(line, comments=True) for body in blocks("sh") for line in body]
    assert all(words[0] == "python" for words in found)
    return [words[1:] for words in found]


def assert_printed(quoted, lines):
    """Each quoted line is one of the lines, in their order; ``...`` stands for anything."""
    rest = iter(lines)
    for line in quoted:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        assert any(pattern.fullmatch(each) for each in rest), f"{line!r} is not printed (there)"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def output_of(capsys, *flags, code=0):
    assert main(list(flags), default_file=ROOT / "hyperparameters.py") == code
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_lines_of_a_plan(capsys):
    (quoted,) = blocks("text plan")
    assert_printed(quoted, output_of(capsys, "--mode", "plan", "--gpu", "A40"))
    (quoted,) = blocks("text small")
    flags = ["--gpu", "RTX 3080", "--episodes-per-update", "512"]
    assert ["scripts/train.py", "--mode", "plan", *flags] in commands_of_the_guide()
    assert_printed(quoted, output_of(capsys, "--mode", "plan", *flags))


def test_every_command_is_understood():
    found = commands_of_the_guide()
    assert len(found) >= 10
    for script, *flags in found:
        assert (ROOT / script).is_file()
        if script == "scripts/gpu_monitor.py":
            gpu_monitor._check(gpu_monitor._parser().parse_known_flags(flags))
            continue
        own = vars(cli._parser().parse_known_flags(flags))
        load_config(None, {name: value for name, value in own.items() if name in Config.model_fields})
    modes = {flags[flags.index("--mode") + 1] for _, *flags in found if "--mode" in flags}
    assert modes == {"train", "plan", "doctor"}


def test_every_file_that_the_guide_names_is_there():
    inline = re.findall(r"`python (\S+\.py)`", GUIDE) + re.findall(r"`(tests/\S+\.py)`", GUIDE)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]*)\)", GUIDE)]
    assert inline and links
    assert all((ROOT / name).is_file() for name in inline)
    assert all((ROOT / "docs" / link).is_file() for link in links)


def test_the_doctor_and_its_checks(capsys, monkeypatch):
    install(monkeypatch, [], cuda=None, driver=False)
    (quoted,) = blocks("text doctor")
    printed = output_of(capsys, "--mode", "doctor", "--simulator", "oracles.toy_simulators:Shop")
    number = quoted[0].split()[0]
    assert number == str(len(CHECKS))
    assert any(re.fullmatch(rf"{number} checks: \d+ broken, \d+ warnings?\.", line) for line in printed)
    section = GUIDE.partition("## The doctor")[2].partition("\n## ")[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    rows = [line.split("│")[1].strip() for line in printed if line.startswith("│")]
    assert names[1:] == [row for row in rows if row] and len(rows) >= len(CHECKS)


def test_the_lines_of_a_run(monkeypatch):
    """Those that need a GPU are made by the functions that a run prints them with."""
    card = of_catalogue(find_card("A40"), busy=80)
    install(monkeypatch, [card])
    instruments = UtilizationTracker(GpuSampler(detect_machine().gpu, 3600.0), find_card("A40"))
    record = {
        "precision": "bf16",
        "update_seconds": 1.0,
        "simulation_seconds": 1.0,
        "steps": 4096,
        "batch_size": 1024,
        "epochs": 1,
    }
    instruments.phase("simulating")
    instruments.phase("updating")
    card.reasons = 0x4
    instruments.figures(record, toy_model("shop"), 1024)
    model = toy_model("shop")
    event = {"phase": "gradients", "bytes_asked": 10**9, "bytes_free": 10**8}
    event |= {"microbatch_before": 8192, "microbatch_after": 4096}
    fallback = {"reason": "why.", "precision_before": "bf16", "precision": "fp32", "learning_rate_factor": 0.8}
    report = _report(toy_updater(model))._replace(
        out_of_memory=[event], skipped_steps=3, optimizer_steps=40, fallbacks=[fallback]
    )
    last = [instruments.simulation_line(), instruments.efficiency_line()]
    end = [*memory_lines("NVIDIA A40", 48 * 10**9, 10**10), *instruments.phase_lines(), *last]
    trials = [
        ExecutionTrial("eager", 3e-3, 0.1, ""),
        ExecutionTrial("graph", 4e-4, 0.1, ""),
        ExecutionTrial("compile", None, 1.0, "no compiler"),
    ]
    tried = trial_lines(trials, fastest(trials).execution)
    lines = [*tried, update_line(1.5), *end, *update_failure_lines(7, report)]
    quoted = blocks("text run")
    assert len(quoted) == 4
    for each in quoted:
        assert_printed(each, lines)


def _report(updater):

    episodes = toy_episodes("shop", updater.host, 1)
    return updater.update([e.trajectory for e in episodes], discounts_of(episodes), np.random.default_rng(0))


def test_the_monitor_without_a_driver(monkeypatch, capsys):
    install(monkeypatch, [], driver=False)
    assert gpu_monitor.main([]) == 2
    assert blocks("text nodriver") == [capsys.readouterr().err.splitlines()]


def test_the_table_of_cards_is_the_catalogue():
    rows = []
    for card in CARDS:
        gpu = machine_with(card).gpu
        usual, marks = tier_defaults(gpu), MODEL_FLOPS_UTILISATION.get(card.name)
        tf32 = "on" if card.capability >= FIRST_WITH["tf32"] else "none"
        mfu = "-" if marks is None else " / ".join(f"{low}-{high}" for low, high in marks) + " %"
        figures = f"{usual.minibatch:,} | {usual.parallel_episodes:,} | {mfu}"
        precision = choose_precision(True, card.capability).upper()
        rows.append(f"| {card.name} | {tier_of(gpu)} | {precision} | {tf32} | {figures} |")
    assert "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n\n" in GUIDE


def test_every_knob_is_in_the_glossary_and_no_other():
    glossary = GUIDE.partition("## Every knob")[2]
    named = re.findall(r"`([A-Z][A-Z0-9_]+)`", glossary)
    assert sorted(named) == sorted(name.upper() for name in Config.model_fields)


def test_the_figures_of_a_record_that_the_guide_names(monkeypatch):
    install(monkeypatch, [of_catalogue(find_card("A40"))])
    instruments = UtilizationTracker(GpuSampler(detect_machine().gpu, 3600.0), find_card("A40"))
    instruments.phase("updating")
    record = {
        "precision": "bf16",
        "update_seconds": 1.0,
        "simulation_seconds": 1.0,
        "steps": 4096,
        "batch_size": 1024,
        "epochs": 1,
    }
    figures = instruments.figures(record, toy_model("shop"), 1024)
    section = GUIDE.partition("## While it runs")[2].partition("\n## ")[0]
    for name in (*figures, *figures["gpu"], *figures["gpu"]["updating"]):
        assert f"`{name}`" in section or name == "samples", name


def test_launches_bind_on_every_card_as_the_guide_says():
    desk = load_simulator("process", "loan_desk", "", "", "").simulator
    for card in CARDS:
        assert make_report(Config(), desk, machine_with(card)).prediction.binding == "launches", card.name
