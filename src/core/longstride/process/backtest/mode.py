"""The mode ``backtest`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode
from longstride.setting_groups.event_log import EventLog

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument("log", nargs="?", metavar="LOG", help="the event log (or --event-log FILE)")
    group.add_argument("--share", type=float, metavar="S", help="share of the log's time span to mine (default: 0.7)")
    resamples = "logs resampled from the mined part, for the intervals; 0 for none (default: 20)"
    group.add_argument("--resamples", type=int, metavar="N", help=resamples)


def _run(call: Call) -> int:
    from longstride.process.backtest.command import BacktestOptions, run_backtest

    given = {name: value for name, value in call.own.items() if value is not None}
    return run_backtest(call.settings, BacktestOptions(**given), call.console, call.say)


BACKTEST = Mode(
    "backtest",
    "Mine the first part of an event log and predict the rest of it.",
    _add_flags,
    _run,
    settings=frozenset(
        {*EventLog.model_fields, "seed", "run_directory", "simulation_threads", "evaluation_episodes"}
        - {"log_arrivals"}
    ),
    is_slow=True,
)
