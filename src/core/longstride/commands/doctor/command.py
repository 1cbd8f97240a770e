"""--mode doctor: all checks, the table of their findings, and the exit code."""

from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from longstride.commands.doctor.checks import CHECKS
from longstride.commands.doctor.finding import DoctorInput, Finding
from longstride.commands.plan.report import make_report
from longstride.errors import UserError
from longstride.hardware.detect import detect_machine
from longstride.hardware.diagnostics import run_diagnostics
from longstride.hardware.planning.plan import Plan, make_plan
from longstride.hardware.planning.second_gpu import format_second_gpu
from longstride.settings import Settings
from longstride.text import Say, counted
from longstride.training.assembly.plan import plan_settings
from longstride.training.assembly.presets import complete
from longstride.training.assembly.run_settings import settings_of_a_run, simulator_for
from longstride.training.assembly.simulator_trust import require_trusted_run
from longstride.training.run_directory.metrics_log import read_metrics
from longstride.training.time_budget import parse_duration

_WIDE = 120
"""Columns of a terminal whose table has room for the remedies."""

_COLOURS = {"ok": "green", "warning": "yellow", "broken": "red", "not measured": "dim"}


def run_doctor(settings: Settings, trust: bool, console: Console, say: Say) -> int:
    """Run all checks, print the table and a last sentence; return the exit code: 1 if something is broken.

    Settings of a run in its run directory replace all that no flag sets. ``trust`` lets the source of that run's
    simulator run although the user has not named it.

    Raises:
        UserError: the simulator cannot be loaded, or the run's config.json is damaged.
    """
    of_a_run = settings_of_a_run(settings)
    if of_a_run.is_complete:
        require_trusted_run(of_a_run.config, settings, trust)
    run = _examine(of_a_run.told(say))
    findings = [check(run) for check in CHECKS]
    wide = console.width >= _WIDE
    console.print(findings_table(findings, remedies=wide))
    for line in [] if wide else remedy_lines(findings):
        say(line)
    broken, warnings = (sum(f.level == level for f in findings) for level in ("broken", "warning"))
    say(f"{len(findings)} checks: {broken} broken, {counted(warnings, 'warning')}.")
    return 1 if broken else 0


def remedy_lines(findings: list[Finding]) -> list[str]:
    """Return a line for each remedy, with the checks that it is for."""
    checks: dict[str, list[str]] = {}
    for finding in findings:
        if finding.remedy:
            checks.setdefault(finding.remedy, []).append(finding.check)
    return [f"{', '.join(names)}: {remedy}." for remedy, names in checks.items()]


def findings_table(findings: list[Finding], remedies: bool = True) -> Table:
    """Return a row for each finding, with or without the remedies in a column."""
    table = Table(Column("check", no_wrap=True), Column("finding", no_wrap=True), Column("measured", overflow="fold"))
    if remedies:
        table.add_column("remedy", overflow="fold")
    for finding in findings:
        row = finding.check, Text(finding.level, _COLOURS[finding.level]), Text(finding.measured), Text(finding.remedy)
        table.add_row(*row[: len(table.columns)])
    return table


def _examine(settings: Settings) -> DoctorInput:
    if settings.config.time_budget:
        parse_duration(settings.config.time_budget)
    setup = complete(settings, simulator_for(settings))
    machine, config, needs = detect_machine(), setup.config, plan_settings(setup)
    plan: Plan | None = None
    plan_error, another = "", None
    try:
        plan = make_plan(machine, needs)
        another = make_report(setup, machine).second if plan.device == "cuda" else None
    except UserError as error:
        plan_error = str(error)
    return DoctorInput(
        config=config,
        machine=machine,
        samples=needs.samples,
        plan=plan,
        plan_error=plan_error,
        checkpoint_bytes=3 * 4 * setup.spec.layout.size,  # parameters and Adam's two moments
        diagnostics=run_diagnostics(Path(config.run_directory or "."), machine.gpu),
        records=read_metrics(Path(config.run_directory)) if config.run_directory else (),
        another=format_second_gpu(another, needs.parallel_episodes) if another else "",
        another_pays=another is not None and another.is_worth_it and needs.parallel_episodes > 1,
    )
