"""--mode plan: predict a run on this machine or on a card of the catalogue, print the plan, write plan.json."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from longstride.commands.plan.card_use import format_use
from longstride.commands.plan.report import PlanReport, make_report, print_report
from longstride.commands.plan.time_estimate import Estimate, estimate_budget
from longstride.config import Config
from longstride.errors import UserError, this_command
from longstride.escaping import shell_command
from longstride.hardware.detect import detect_machine
from longstride.hardware.planning.gpu_catalog import find_card, machine_with
from longstride.hardware.planning.second_gpu import format_second_gpu
from longstride.own_files.marker import mark_folder
from longstride.setting_flags import flags_of
from longstride.settings import Settings
from longstride.text import Say, format_bytes, format_duration
from longstride.training.assembly.plan import announce
from longstride.training.assembly.presets import complete
from longstride.training.assembly.run_settings import simulator_for
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import require_replaceable, require_run_directory
from longstride.training.time_budget import parse_duration


@dataclass(frozen=True)
class PlanOptions:
    """What the command line says of a plan beside the settings."""

    gpu: str | None = None  # card of the catalogue; None for this machine
    file: Path | None = None  # hyperparameters file that the user named, for the command to train
    verbose: bool = False  # whether every choice is printed with its reason


def run_plan(settings: Settings, options: PlanOptions, console: Console, say: Say) -> Path:
    """Plan for this machine or a card of the catalogue, print and write; return the path of plan.json.

    Raises:
        UserError: the input is wrong, or the run directory holds a run or something else.
    """
    config, gpu = settings.config, options.gpu
    path = _plan_path(config)
    budget = parse_duration(config.time_budget) if config.time_budget else None
    if gpu is not None and config.device == "cpu":
        raise UserError("--gpu asks for a plan with a GPU, but DEVICE is cpu; leave one of the two out.")
    machine = machine_with(find_card(gpu), detect_machine()) if gpu is not None else detect_machine()
    loaded = simulator_for(settings, say)
    setup = complete(settings, loaded)
    report = make_report(setup, machine)
    notes = [*loaded.notes, *setup.settings.notes]
    for line in [*notes, *announce(report.plan, machine, setup.config, options.verbose)]:
        say(line)
    print_report(report, console)
    estimate = estimate_budget(setup, report, budget, say) if budget else None
    command = _command(setup.settings, options.file, report)
    for line in [*_verdict(report), *_budget_lines(estimate, budget), f"Run it: {command}"]:
        say(line)
    content = {**report.plan.as_json(), "machine": asdict(machine), **report.as_json(), "command": command}
    if config.run_directory:
        mark_folder(path.parent, "run")
    write_json(path, content | ({"time_budget": asdict(estimate)} if estimate else {}))
    return path


def _plan_path(config: Config) -> Path:
    directory = Path(config.run_directory or ".")
    if config.run_directory and RunDirectory(directory).holds_run():
        raise UserError(f"{directory} holds a run, whose plan.json says how it was made; name another --run-directory.")
    path = RunDirectory(directory).plan
    if config.run_directory:
        require_run_directory(directory)
    require_replaceable(path, ("device", "batch_size", "reasons"))
    return path


def _verdict(report: PlanReport) -> list[str]:
    """Return the verdict, and what is behind it."""
    peak, room = format_bytes(report.memory.peak), format_bytes(report.room)
    trajectories = format_bytes(report.plan.trajectory_bytes)
    if report.gpu:
        where, sizes = report.gpu.name, f"{peak} of tensors, room for {room}"
        remedy = f"it would with {report.enough}" if report.enough else "nor with fewer episodes an iteration"
    else:
        where, sizes = "CPU", f"{peak} for an update in addition to {trajectories} of trajectories"
        remedy = f"it would with {report.enough}" if report.enough else "nor with a shorter rollout"
    if not report.fits:
        return [f"Does not fit on the {where}: {sizes}; {remedy}."]
    lines = [
        f"Fits on the {where}: {sizes}.",
        f"Largest minibatch {report.largest_minibatch:,}, largest microbatch {report.largest_microbatch:,} samples.",
    ]
    if report.prediction.update_seconds is not None:
        time = format_duration(report.prediction.update_seconds)
        lines.append(f"Predicted update: {time}, not measured; expect up to several times that.")
        if report.use and report.prediction.binding:
            lines += format_use(report.use[0], report.prediction.binding, report.use[1:])
        lines += [format_second_gpu(report.second, report.plan.parallel_episodes)] if report.second else []
    elif report.gpu:
        lines.append(f"The {where} is not in the catalogue: its time is not predicted.")
    return lines


def _budget_lines(estimate: Estimate | None, budget: float | None) -> list[str]:
    if estimate is None or budget is None:
        return []
    time = format_duration(budget)
    if estimate.episodes is None:
        return [f"How many training episodes {time} hold is not known: {estimate.basis}."]
    return [
        f"In {time} about {estimate.episodes:,} training episodes, perhaps {estimate.low:,} to {estimate.high:,}: "
        f"{estimate.basis}."
    ]


def _command(settings: Settings, file: Path | None, report: PlanReport) -> str:
    """Return the command that trains as planned, with the flags of this one."""
    flags = ["--hyperparameters", str(file)] if file else []
    sizes = ("num_envs", "rollout_steps")
    left_out = [name for name in sizes if f"--{name.replace('_', '-')}" in report.enough]
    flags += flags_of(
        {n: getattr(settings.config, n) for n in settings.sources if settings.is_flag(n) and n not in left_out}
    )
    if not report.fits:
        flags += (report.enough or ("--device cpu" if report.gpu else "")).split()
    return f"{this_command()} {shell_command(['--mode', 'train', *flags])}"
