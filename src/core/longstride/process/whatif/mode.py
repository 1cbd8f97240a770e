"""The mode ``whatif`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import (
    OF_EPISODES,
    Call,
    Mode,
    add_checkpoint,
    add_no_report,
    add_policies,
    without_checkpoint,
)

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_checkpoint(group)
    add_policies(group, "all but random")
    change = 'a change of the scenario, for example "people +1 analyst"; repeat the flag for several scenarios'
    group.add_argument("--change", action="append", metavar="TEXT", help=change)
    cost = "cost of a person for the length of an episode"
    group.add_argument("--cost-per-person", type=float, metavar="AMOUNT", help=cost)
    resamples = (
        "logs resampled from the event log, so that intervals cover the error of its size; 0 for none (default: 20)"
    )
    group.add_argument("--resamples", type=int, metavar="N", help=resamples)
    add_no_report(group)


def _run(call: Call) -> int:
    from longstride.api.report import wants_report
    from longstride.process.whatif.command import WhatIfOptions, run_whatif
    from longstride.process.whatif.log_errors import RESAMPLES

    own = call.own
    options = WhatIfOptions(
        checkpoint=own["checkpoint"],
        policies=own["policy"],
        changes=own["change"] or [],
        further_scenarios=own.get("further_scenarios") or [],
        cost=own["cost_per_person"] or 0.0,
        report=wants_report(own["no_report"]),
        resamples=RESAMPLES if own["resamples"] is None else own["resamples"],
    )
    return run_whatif(call.settings, options, call.console, call.say)


WHATIF = Mode(
    "whatif",
    "Compare policies on a process and on changed versions of it.",
    _add_flags,
    _run,
    without_checkpoint,
    several="scenario",
    settings=OF_EPISODES,
    is_slow=True,
)
