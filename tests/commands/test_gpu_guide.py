"""The pages about GPUs are true: their lines are printed, their tables are those of the program."""

import re
import sys

import pytest
from helpers.documentation import ROOT, assert_printed, blocks, commands, page, rows, section
from helpers.fake_gpus import install, of_catalogue
from helpers.toy_runs import toy_episodes, toy_model, toy_update, toy_updater

pytest.importorskip("pydantic")

from helpers.setups import set_up

from longstride.cli import main
from longstride.commands import gpu_monitor
from longstride.commands.doctor.checks import CHECKS
from longstride.commands.plan.report import make_report
from longstride.config import Config
from longstride.hardware.detect import detect_machine
from longstride.hardware.gpu_sampler import GpuSampler
from longstride.hardware.planning.gpu_catalog import (
    CARDS,
    MODEL_FLOPS_UTILISATION,
    find_card,
    machine_with,
    tier_defaults,
    tier_of,
)
from longstride.hardware.planning.precision import FIRST_WITH, choose_precision
from longstride.learning.step_selection.autotune import ExecutionTrial, fastest, trial_lines
from longstride.rollout.exploring.reach import FALLS_BEHIND
from longstride.simulators.loading import load_simulator
from longstride.training.display.messages import memory_lines, update_line
from longstride.training.display.utilization import UtilizationTracker
from longstride.training.failures import update_failure_lines

PLAN, PROBLEMS = page("how-to/plan-a-gpu-run.md"), page("how-to/solve-problems.md")
RUN = 'text title="Output of a run"'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["longstride"])  # which sentences tell to type


def output_of(capsys, *flags, code=0):
    assert main(list(flags), default_file=ROOT / "hyperparameters.py") == code
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_lines_of_a_plan(capsys):
    (quoted,) = blocks(PLAN, 'text title="Output of the plan"')
    assert_printed(quoted, output_of(capsys, "--mode", "plan", "--gpu", "A40"))
    (quoted,) = blocks(PLAN, 'text title="Output for the RTX 3080"')
    flags = ["--mode", "plan", "--gpu", "RTX 3080", "--num-envs", "512"]
    assert ["longstride", *flags] in commands(PLAN)
    assert_printed(quoted, output_of(capsys, *flags))
    (quoted,) = blocks(PLAN, 'text title="Output for the guide"')
    (flags,) = [each[1:] for each in commands(PLAN) if "large_transformer" in each and "--gpu" in each]
    assert_printed(quoted, output_of(capsys, *flags))
    (quoted,) = blocks(page("explanation/predictions.md"), 'text title="Lines of the plan"')
    assert_printed(quoted, output_of(capsys, "--mode", "plan", "--device", "cpu", "--verbose"))


def test_the_doctor_and_its_checks(capsys, monkeypatch):
    install(monkeypatch, [], cuda=None, driver=False)
    printed = output_of(capsys, "--mode", "doctor", "--simulator", "oracles.toy_simulators:Shop")
    (quoted,) = blocks(PLAN, 'text title="Last line of the doctor"')
    assert_printed(quoted, printed)
    assert any(re.fullmatch(rf"{len(CHECKS)} checks: \d+ broken, \d+ warnings?\.", line) for line in printed)
    listed = [cells[0] for cells in rows(page("reference/doctor.md").partition("| check |")[2])]
    table = [line.split("│")[1].strip() for line in printed if line.startswith("│")]
    assert listed == [row for row in table if row] and len(table) >= len(CHECKS)


def test_the_lines_of_a_run(monkeypatch):
    """Those that need a GPU are made by the functions that a run prints them with."""
    card = of_catalogue(find_card("A40"), busy=80)
    install(monkeypatch, [card])
    tracker = UtilizationTracker(GpuSampler(detect_machine().gpu, 3600.0), find_card("A40"))
    record = {
        "precision": "bf16",
        "update_seconds": 1.0,
        "simulation_seconds": 1.0,
        "steps": 4096,
        "batch_size": 1024,
        "epochs": 1,
    }
    tracker.sampler.phase("simulating")
    tracker.sampler.phase("updating")
    card.reasons = 0x4
    tracker.figures(record, toy_model("shop").spec, 1024)
    model = toy_model("shop")
    event = {"phase": "gradients", "bytes_asked": 10**9, "bytes_free": 10**8}
    event |= {"microbatch_before": 8192, "microbatch_after": 4096}
    fallback = {"reason": "why.", "precision_before": "bf16", "precision": "fp32", "learning_rate_factor": 0.8}
    report = _report(toy_updater(model))._replace(
        out_of_memory=[event], skipped_steps=3, optimizer_steps=40, fallbacks=[fallback]
    )
    last = [tracker.simulation_line(), tracker.efficiency_line()]
    end = [*memory_lines("NVIDIA A40", 48 * 10**9, 10**10), *tracker.phase_lines(), *last]
    trials = [
        ExecutionTrial("eager", 3e-3, 0.1, ""),
        ExecutionTrial("graph", 4e-4, 0.1, ""),
        ExecutionTrial("torch_compile", None, 1.0, "no compiler"),
    ]
    tried = trial_lines(trials, fastest(trials).execution)
    lines = [*tried, update_line(1.5), *end, *update_failure_lines(7, report), FALLS_BEHIND]
    quoted = [*blocks(PLAN, RUN), *blocks(PROBLEMS, RUN), *blocks(page("explanation/update-steps.md"), RUN)]
    assert len(quoted) == 5
    for each in quoted:
        assert_printed(each, lines)


def _report(updater):
    return toy_update(updater, toy_episodes("shop", updater.host, 1))


def test_the_monitor_without_a_driver(monkeypatch, capsys):
    install(monkeypatch, [], driver=False)
    assert gpu_monitor.main([]) == 2
    assert blocks(PLAN, 'text title="Without a driver"') == [capsys.readouterr().err]


def test_the_table_of_cards_is_the_catalogue():
    lines = []
    for card in CARDS:
        gpu = machine_with(card).gpu
        usual, marks = tier_defaults(gpu), MODEL_FLOPS_UTILISATION.get(card.name)
        tf32 = "on" if card.capability >= FIRST_WITH["tf32"] else "none"
        mfu = "-" if marks is None else " / ".join(f"{low}-{high}" for low, high in marks) + " %"
        figures = f"{usual.minibatch:,} | {usual.parallel_episodes:,} | {mfu}"
        precision = choose_precision(card.capability).upper()
        lines.append(f"| {card.name} | {tier_of(gpu)} | {precision} | {tf32} | {figures} |")
    assert "|---|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n\n" in page("reference/cards.md")


def test_the_figures_of_a_record_are_in_the_reference(monkeypatch):
    install(monkeypatch, [of_catalogue(find_card("A40"))])
    tracker = UtilizationTracker(GpuSampler(detect_machine().gpu, 3600.0), find_card("A40"))
    tracker.sampler.phase("updating")
    record = {
        "precision": "bf16",
        "update_seconds": 1.0,
        "simulation_seconds": 1.0,
        "steps": 4096,
        "batch_size": 1024,
        "epochs": 1,
    }
    figures = tracker.figures(record, toy_model("shop").spec, 1024)
    text = section(page("reference/metrics.md"), "The machine")
    for name in (*figures, *figures["gpu"], *figures["gpu"]["updating"]):
        assert f"`{name}`" in text, name


def test_launches_bind_on_every_card_as_the_guide_says():
    desk = load_simulator("process").simulator
    for card in CARDS:
        assert make_report(set_up(Config(), desk), machine_with(card)).prediction.binding == "launches", card.name
