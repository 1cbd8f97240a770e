"""The mode ``train`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_no_report, add_trust, add_verbose, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument(
        "--resume", action="store_true", help="continue the run in --run-directory with its own settings; flags win"
    )
    add_no_report(group)
    add_trust(group)
    add_verbose(group)


def _run(call: Call) -> int:
    from longstride.api.report import wants_report
    from longstride.api.training import TrainOptions
    from longstride.commands.train.command import run_train

    own = call.own
    report, trust = wants_report(own["no_report"]), own["trust_simulator"]
    options = TrainOptions(own["resume"], call.named, report, own["verbose"], trust)
    return run_train(call.settings, options, call.console, call.say)


TRAIN = Mode("train", "Train a policy.", _add_flags, _run, reads_settings=always, has_a_result=always, is_slow=True)
