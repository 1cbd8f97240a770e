"""The mode ``ab`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument("--a", metavar="FLAGS", help='flags of side A, for example "--no-auto-batch-size"')
    group.add_argument("--b", metavar="FLAGS", help="flags of side B")
    group.add_argument("--pairs", type=int, metavar="N", help="runs per side (default: 5)")


def _run(call: Call) -> int:
    from longstride.commands.ab.command import PAIRS, read_comparison, run_ab

    own = call.own
    comparison = read_comparison(own["a"], own["b"], call.config, call.options, call.file)
    path = run_ab(comparison, PAIRS if own["pairs"] is None else own["pairs"], call.console, call.say)
    call.say(f"Written to {path}.")
    return 0


AB = Mode(
    "ab",
    "Train with two sets of settings in alternation and compare them.",
    _add_flags,
    _run,
    reads_settings=always,
    has_a_result=always,
    is_slow=True,
)
