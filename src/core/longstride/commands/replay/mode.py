"""The mode ``replay`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import OF_A_RUN, Call, Mode, add_trust

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    names = ("--iteration", "--episode")  # the second is the name in earlier versions, for one version
    group.add_argument(*names, type=int, metavar="N", help="the iteration to repeat")
    add_trust(group)


def _run(call: Call) -> int:
    from longstride.commands.replay.command import run_replay

    own = call.own
    return run_replay(call.settings, own["iteration"], own["trust_simulator"], call.console, call.say)


REPLAY = Mode("replay", "Repeat an iteration step by step.", _add_flags, _run, settings=OF_A_RUN, is_slow=True)
