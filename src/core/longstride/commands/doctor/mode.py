"""The mode ``doctor`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_trust, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_trust(group)


def _run(call: Call) -> int:
    from longstride.commands.doctor.command import run_doctor

    return run_doctor(call.settings, call.own["trust_simulator"], call.console, call.say)


DOCTOR = Mode(
    "doctor", "Check the machine, the installation, the simulator and a run.", _add_flags, _run, reads_settings=always
)
