"""The kinds of error that a user is meant to read, and the command that sentences tell to type."""

import sys
from pathlib import Path


def this_command() -> str:
    """Return what a user types to run this program: the installed command where it runs as that, else the script."""
    return "longstride" if Path(sys.argv[0]).stem == "longstride" else "python scripts/train.py"


class UserError(Exception):
    """Bad input: one sentence that says what was wrong, where, and what to do (exit code 2)."""


class SimulatorError(UserError):
    """A simulator broke its contract; the message names the episode and the step."""


class EndlessEpisodeError(SimulatorError):
    """A simulator does not come back; compiled code cannot be interrupted, so the process has to be ended."""


class PolicyNotFiniteError(SimulatorError):
    """The outputs of the policy were NaN or infinite while it played: its weights have exploded."""


class GpuLostError(UserError):
    """A GPU failed; CUDA cannot be used again in this process, not even to end it in an orderly way."""


class NotSavedError(UserError):
    """A run came to its end, but not all that it made could be written (exit code 1)."""
