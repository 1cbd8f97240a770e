"""The mode ``track`` on the command line: it sends a run that has ended."""

from pathlib import Path
from typing import TYPE_CHECKING

from longstride.commands.mode import OF_A_RUN, Call, Mode, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument("--to", choices=("wandb", "mlflow"), help="the service to send the run to")
    group.add_argument("--follow", action="store_true", help="removed: train with --track")


def _run(call: Call) -> int:
    from longstride.errors import UserError
    from longstride.training.assembly.run_settings import values_of_a_run
    from longstride.training.run_directory.directory import RunDirectory
    from longstride.training.run_directory.lock import RunLock
    from longstride.training.run_directory.metrics_log import read_metrics
    from longstride.training.tracking.services import tracking_by

    directory, service = Path(call.config.run_directory), call.own["to"]
    if call.own["follow"]:
        raise UserError("--follow is gone: train with --track wandb or --track mlflow, which sends each iteration.")
    if not call.config.run_directory or service is None:
        raise UserError("--mode track needs --run-directory DIR and --to wandb or --to mlflow.")
    records = read_metrics(directory)
    if not records:
        name = RunDirectory(directory).metrics.name
        raise UserError(f"{directory} has no {name} with an iteration; name the directory of a run.")
    lock = RunLock(directory)
    try:
        tracking = tracking_by(service, call.say)
        tracking.on_start(directory, values_of_a_run(RunDirectory(directory)))
        for record in records:
            tracking.on_iteration(record)
        tracking.on_end()
    finally:
        lock.release()
    return 0 if tracking.failure is None else 2


TRACK = Mode(
    "track",
    "Send a finished run to Weights & Biases or MLflow.",
    _add_flags,
    _run,
    has_a_result=always,
    settings=OF_A_RUN,
)
