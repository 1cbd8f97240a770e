"""``--mode recommend``: reads a state and prints a recommendation, or serves them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from longstride.api.checkpoint_simulator import names_simulator, simulator_of, source_of_checkpoint
from longstride.config import Config
from longstride.errors import UserError
from longstride.escaping import json_text
from longstride.process.event_logs.open_events import read_open_events
from longstride.process.event_logs.reading.decode import kind_of, read_log, readable, require_file
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.load import PROCESS
from longstride.process.options import options_of
from longstride.process.recommend.recommender import TOP, Recommender
from longstride.process.recommend.table import print_advice
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.classes_of_log import in_classes
from longstride.process.snapshots.from_log import state_of_log
from longstride.process.snapshots.schema import ProcessState, parse_state, require_no_repetition
from longstride.settings import Settings
from longstride.text import Say
from longstride.training.evaluation.trained_policy import trained_policy
from longstride.training.run_directory.acting_file import draws_by_default
from longstride.training.run_directory.checkpoint import MEAN_OF_LATE, checkpoint_folder, load_arrays, policy_folder
from longstride.training.run_directory.directory import checkpoint_files, run_directory_of
from longstride.version import __version__

LOCALHOST = "127.0.0.1"
MOST_WORKERS = 256


@dataclass(frozen=True)
class RecommendOptions:
    """Options of the command line that are not settings."""

    checkpoint: str | None = None  # run directory or checkpoint; None for --run-directory
    state: str | None = None  # file with a state, or a log of open cases
    at: str | None = None  # present of a log
    on_shift: list[str] | None = None  # people on shift at the log's present
    json: bool = False  # whether to print JSON
    top: int | None = None  # largest number of assignments; 0 for all
    serve: int | None = None  # port
    host: str | None = None  # address to listen at
    token_file: str | None = None  # file with the tokens of requests
    workers: int | None = None  # processes that answer
    access_log: str | None = None  # file for a line about each answer, "-" for the standard output


def run_recommend(settings: Settings, options: RecommendOptions, console: Console, say: Say) -> int:
    """Print a recommendation, or serve them until a signal ends it; return the exit code.

    Raises:
        UserError: the run, the state or the address is not valid.
    """
    directory = options.checkpoint or settings.config.run_directory
    if not directory:
        raise UserError("--mode recommend needs --run-directory DIR, a run or one of its checkpoints.")
    if (options.state is None) == (options.serve is None):
        raise UserError("--mode recommend needs either --state FILE, a state or a log of open cases, or --serve PORT.")
    if options.top is not None and options.top < 0:
        raise UserError(f"--top is {options.top}; expected a number of assignments, 0 for all.")
    for flag in ("host", "token_file", "workers", "access_log"):
        if getattr(options, flag) is not None and options.serve is None:
            raise UserError(f"--{flag.replace('_', '-')} goes with --serve PORT.")
    if options.workers is not None and not 1 <= options.workers <= MOST_WORKERS:
        raise UserError(f"--workers is {options.workers}; expected 1 to {MOST_WORKERS}.")
    if options.serve is not None:
        _serve(Path(directory), settings, options, say)
        return 0
    of_the_run = list[str]()  # with --json nothing else is printed
    recommender, about = recommender_of(Path(directory), settings, of_the_run.append if options.json else say)
    state, notes = read_state(Path(str(options.state)), options, recommender, settings.config)
    advice = recommender.advise(state, TOP if options.top is None else options.top)
    if options.json:
        identity = {"policy_sha256": about["policy_sha256"], "version": __version__}
        print(json_text({**advice.as_json(), **identity, "notes": [*of_the_run, *notes]}, indent=2))
    else:
        print_advice(advice, console, say)
        for note in notes:
            say(note)
    return 0


def recommender_of(directory: Path, settings: Settings, say: Say) -> tuple[Recommender, dict[str, Any]]:
    """Return a recommender, and its description for the service's health page.

    Raises:
        UserError: there is no intact checkpoint, or it does not belong to a process.
    """
    recommenders, about = _recommenders(directory, settings, say, 1)
    return recommenders[0], about


def _recommenders(
    directory: Path, settings: Settings, say: Say, count: int
) -> tuple[list[Recommender], dict[str, Any]]:
    """Return recommenders with the same policy, one for each thread, and their description for the service."""
    folder = policy_folder(directory, say)
    tensors, metadata = load_arrays(folder, say)
    missing = [name for name in ("source", "simulator", "policy", "iteration") if name not in metadata]
    if missing:
        raise UserError(f"The checkpoint in {directory} is damaged: it lacks {', '.join(missing)}.")
    purpose = "--mode recommend is for processes, from scenarios or event logs."
    named = names_simulator(settings)
    name = settings.config.simulator if named else source_of_checkpoint(metadata, directory).get("simulator")
    if name != PROCESS:
        raise UserError(f"The run in {directory} simulates {str(name).rpartition(':')[2]}; {purpose}")
    simulator = simulator_of(settings, metadata, directory).simulator
    assert isinstance(simulator, ProcessSimulator)
    trained = trained_policy(tensors, metadata)
    about: dict[str, Any] = {
        "scenario": simulator.scenario.name,
        "policy": trained.spec.family.name,
        "iteration": int(metadata["iteration"]),
        MEAN_OF_LATE: bool(metadata.get(MEAN_OF_LATE)),
        "policy_sha256": str(metadata["tensors_sha256"]),
        "draws": draws_by_default(directory, trained.actor_params),
        "saved": checkpoint_files(checkpoint_folder(folder))[0].stat().st_mtime,
    }
    return [Recommender(simulator, trained, about["draws"]) for _ in range(count)], about


def read_state(
    path: Path, options: RecommendOptions, recommender: Recommender, config: Config
) -> tuple[ProcessState, list[str]]:
    """Return the state in a file, and sentences about the assumptions made for a log.

    Raises:
        UserError: the file cannot be read, or is neither a state nor a log.
    """
    require_file(path, "state or log")
    if not path.is_file():
        raise UserError(f"There is no file {path} with a state or a log.")
    with readable(path):
        guard = Guard(options_of(config).reading.limits, str(path))
        content = read_log(path, guard) if kind_of(path, guard) == "json" else b""
    if content and b'"objectTypes"' not in content:
        for flag, given in (("--at", options.at), ("--on-shift", options.on_shift)):
            if given is not None:
                raise UserError(f"{flag} applies to logs only; {path} is a state, which contains this itself.")
        state = parse_state(content, str(path))
        require_no_repetition(content, state, str(path))
        return state, []
    if math.isnan(recommender.simulator.scenario.hour):
        raise UserError("The scenario has no unit of time, so a log cannot be read for it; describe the state as JSON.")
    process = options_of(config)
    events = read_open_events(path, process.columns, process.reading, options.at)
    events = in_classes(events, path, process.columns, process.reading, process.classes, recommender.names)
    found = state_of_log(events, recommender.simulator, recommender.names, options.on_shift)
    state = found.state
    summary = (
        f"{path} at {events.now.isoformat(timespec='seconds')}: waiting tasks {len(state.waiting):,}, "
        f"in work {len(state.in_work):,}, at rest {len(state.resting):,}; "
        f"people on shift {len(state.on_shift or []):,}."
    )
    return state, [summary, *events.notes, *found.notes]


def _serve(directory: Path, settings: Settings, options: RecommendOptions, say: Say) -> None:
    from longstride.process.recommend.service.guard import guard_of

    host = options.host or LOCALHOST
    guard_of(host, options.token_file)
    try:
        from longstride.process.recommend.service.limits import Limits, Served
        from longstride.process.recommend.service.server import ServiceOptions, serve
    except ImportError as error:
        raise UserError(
            f"{error.name or error} is not installed, which --serve needs; pip install 'longstride[service]' adds it."
        ) from None

    def load() -> Served:
        (recommender, other), about = _recommenders(directory, settings, say, 2)
        return Served(recommender, about, other)

    def fingerprint() -> object:
        newest = checkpoint_files(checkpoint_folder(policy_folder(directory)))[0]
        acting = run_directory_of(directory).acting
        return newest, newest.stat().st_mtime_ns, acting.is_file() and acting.stat().st_mtime_ns

    config = settings.config
    limits = Limits(config.service_connections, config.service_write_seconds, config.service_drain_seconds)
    service = ServiceOptions(
        host, options.serve or 0, options.workers or 1, options.access_log or "", limits, config.service_reload_seconds
    )
    serve(service, load, lambda address: guard_of(address, options.token_file), fingerprint, say)
