"""The errors that users read, and helpers for their sentences."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


def this_command() -> str:
    """Return what a user types to run this program: the installed command if it runs as that, else the script."""
    return "longstride" if Path(sys.argv[0]).stem == "longstride" else "python scripts/train.py"


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return how a sentence about an unknown name ends: ``; did you mean X?``, ``; otherwise.`` or a full stop.

    Args:
        name: unknown name.
        known: names that exist.
        otherwise: clause to end with where no known name is similar.
    """
    near = get_close_matches(name, list(known), 1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; {otherwise}." if otherwise else "."


def one_line(error: BaseException) -> str:
    """Return the text of an error as at most 300 characters of one line, without a full stop; Numba's fill screens."""
    return " ".join(str(error).split())[:300].rstrip(".")


class UserError(Exception):
    """Bad input: one sentence that says what was wrong, where, and what to do (exit code 2)."""


class SimulatorError(UserError):
    """A simulator broke its contract; the message names the episode and the step."""


class EndlessEpisodeError(SimulatorError):
    """A simulator does not return; compiled code cannot be interrupted, so the process has to end."""


class PolicyNotFiniteError(SimulatorError):
    """The outputs of the policy were NaN or infinite during collection: its parameters have diverged."""


class GpuLostError(UserError):
    """A GPU failed; this process cannot use CUDA again, not even to shut it down."""


class NotSavedError(UserError):
    """A run finished, but some of its files could not be written (exit code 1)."""
