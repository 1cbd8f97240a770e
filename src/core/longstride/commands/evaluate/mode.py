"""The mode ``evaluate`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import (
    OF_EPISODES,
    Call,
    Mode,
    add_checkpoint,
    add_no_report,
    add_policies,
    add_trust,
    without_checkpoint,
)

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_checkpoint(group)
    add_policies(group)
    add_no_report(group)
    add_trust(group)


def _run(call: Call) -> int:
    from longstride.api.report import wants_report
    from longstride.commands.evaluate.command import EvaluateOptions, run_evaluate

    own = call.own
    report, trust = wants_report(own["no_report"]), own["trust_simulator"]
    options = EvaluateOptions(own["checkpoint"], own["policy"], report, trust)
    return run_evaluate(call.settings, options, call.console, call.say)


EVALUATE = Mode(
    "evaluate",
    "Compare a trained policy with heuristics, over whole episodes.",
    _add_flags,
    _run,
    without_checkpoint,
    settings=OF_EPISODES,
    is_slow=True,
)
