"""The mode ``sweep`` on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    space = 'a setting and its values, "learning_rate_actor=1e-4..1e-2 log" or "batch_size=256,512"; repeatable'
    group.add_argument("--sweep", action="append", metavar="NAME=VALUES", help=space)
    group.add_argument("--sweep-file", type=Path, metavar="FILE", help="settings and their values in TOML")
    group.add_argument("--trials", type=int, metavar="N", help="largest number of trials (default: 20)")
    minutes = "time limit in minutes, including the comparison at the end (default: no limit)"
    group.add_argument("--sweep-minutes", type=float, metavar="M", help=minutes)
    objectives = ("score", "score,seconds")
    group.add_argument("--sweep-objective", choices=objectives, help="what to optimise (default: score)")
    group.add_argument("--no-pruning", action="store_true", help="finish trials that are worse than the median, too")
    finalists = "best trials to compare with the base settings at the end (default: 2)"
    group.add_argument("--finalists", type=int, metavar="N", help=finalists)
    held_out = "seeds of that comparison, 0 for none (default: 4)"
    group.add_argument("--held-out-seeds", type=int, metavar="N", help=held_out)


def _run(call: Call) -> int:
    from longstride.commands.sweep.command import run_sweep
    from longstride.commands.sweep.sweep import options_of, read_sweep

    sweep = read_sweep(options_of(call.own), call.config, call.options, call.file)
    path = run_sweep(sweep, call.console, call.say)
    call.say(f"Written to {path}.")
    return 0


SWEEP = Mode(
    "sweep", "Search for settings.", _add_flags, _run, reads_settings=always, has_a_result=always, is_slow=True
)
