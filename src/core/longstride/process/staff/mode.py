"""The mode ``staff`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_checkpoint, always
from longstride.process.front.mode import add_search_flags

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_search_flags(group, "the search and all trainings", "; with a target cost_per_case,share_beyond_target")
    add_checkpoint(group)
    group.add_argument("--policy", metavar="NAME", help="a heuristic that runs the teams instead of a policy")
    moves = "moves of the search: people, skills, hours (default: all)"
    group.add_argument("--moves", metavar="KIND,...", help=moves)
    for flag, what in (
        ("more", "largest number of people to add to a group (default: 2)"),
        ("fewer", "largest number of people to remove from a group (default: 2)"),
        ("teams", "largest number of teams to try (default: 200)"),
        ("search-episodes", "episodes per team in the search (default: 4)"),
        ("finalists", "teams on its front to compare in full (default: 3)"),
    ):
        group.add_argument(f"--{flag}", type=int, metavar="N", help=what)
    group.add_argument("--no-retraining", action="store_true", help="do not train policies for the finalists")


def _run(call: Call) -> int:
    from longstride.process.staff.command import StaffOptions, run_staff

    given = {name: value for name, value in call.own.items() if value is not None}
    return run_staff(StaffOptions(**given), call)


STAFF = Mode(
    "staff",
    "Search for a team that is cheaper, quicker or more punctual.",
    _add_flags,
    _run,
    reads_settings=always,
    has_a_result=always,
    is_slow=True,
)
