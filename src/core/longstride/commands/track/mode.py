"""The mode ``track`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import OF_A_RUN, Call, Mode, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument("--to", choices=("wandb", "mlflow"), help="the service that shows the run")
    group.add_argument("--follow", action="store_true", help="until the training ends")


def _run(call: Call) -> int:
    from longstride.commands.track.command import run_track

    return run_track(call.config.run_directory, call.own["to"], call.own["follow"], call.say)


TRACK = Mode(
    "track", "Show a run in Weights & Biases or MLflow.", _add_flags, _run, has_a_result=always, settings=OF_A_RUN
)
