"""All checks, the table of their findings, and the exit code."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from core.commands.doctor import gpu_checks, run_checks
from core.commands.doctor.finding import Case, Finding
from core.config import Config
from core.errors import UserError
from core.hardware.detect import detect_machine
from core.hardware.diagnostics import run_diagnostics
from core.hardware.planning.activation_memory import parameters
from core.hardware.planning.plan import Plan, make_plan
from core.hardware.planning.update_memory import policy_size
from core.training.build.plan import plan_settings, policy_spec
from core.training.build.run_settings import load_configured, settings_of_a_run
from core.training.run_directory.metrics_log import read_metrics

_COLOURS = {"ok": "green", "warning": "yellow", "broken": "red", "not measured": "dim"}

CHECKS: tuple[Callable[[Case], Finding], ...] = (
    gpu_checks.torch_build,
    gpu_checks.driver,
    gpu_checks.device,
    gpu_checks.precision,
    gpu_checks.tf32,
    gpu_checks.compiled,
    gpu_checks.fp8,
    gpu_checks.utilisation,
    gpu_checks.efficiency,
    gpu_checks.clocks,
    gpu_checks.pinned,
    run_checks.batch,
    run_checks.episodes,
    run_checks.memory,
    run_checks.fragmentation,
    run_checks.numbers,
    run_checks.threads,
    run_checks.load,
    run_checks.simulation,
    run_checks.disk,
)


def diagnose(case: Case) -> list[Finding]:
    """Return the finding of every check."""
    return [check(case) for check in CHECKS]


def run_doctor(config: Config, sources: dict[str, str], console: Console, say: Callable[[str], None]) -> int:
    """Look, print the table and a last sentence; return the exit code: 1 if something is broken.

    Args:
        config: of the run; where its run directory holds one, that one's settings count, but for flags.
        sources: where its values come from.
        console: for the table.
        say: prints a line.

    Raises:
        UserError: the simulator cannot be loaded, or the run's config.json is damaged.
    """
    config, line = settings_of_a_run(config, sources)
    if line:
        say(line)
    findings = diagnose(_examine(config))
    console.print(findings_table(findings))
    broken, warnings = (sum(f.level == level for f in findings) for level in ("broken", "warning"))
    say(f"{len(findings)} checks: {broken} broken, {_counted(warnings, 'warning')}.")
    return 1 if broken else 0


def findings_table(findings: list[Finding]) -> Table:
    """Return a row for each finding."""
    table = Table("check", "finding", "measured", "remedy")
    for finding in findings:
        colour = _COLOURS[finding.level]
        table.add_row(finding.check, f"[{colour}]{finding.level}[/]", _plain(finding.measured), _plain(finding.remedy))
    return table


def _examine(config: Config) -> Case:
    simulator = load_configured(config).simulator
    directory, machine = Path(config.run_directory or "."), detect_machine()
    settings, spec = plan_settings(config, simulator), policy_spec(config, simulator)
    plan: Plan | None = None
    plan_error = ""
    try:
        plan = make_plan(machine, settings)
    except UserError as error:
        plan_error = str(error)
    return Case(
        config,
        machine,
        settings,
        plan,
        plan_error,
        checkpoint_bytes=3 * 4 * policy_size(spec),  # weights and Adam's two moments
        actor_bytes=4 * parameters(spec.actor_sizes),
        around=run_diagnostics(directory, machine.gpu),
        records=read_metrics(directory) if config.run_directory else (),
    )


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
