"""The errors that users read, and helpers for their sentences."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from longstride.escaping import shell_command, shell_word

EXIT_NOT_SAVED, EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_NO_READER = 1, 2, 130, 141
"""Exit codes of the command line, besides 0."""

_SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "train.py"
"""The command's script in a source checkout; an installed package has none."""

_RANKS, _RANKS_SCRIPT = "longstride-torchrun", _SCRIPT.with_name("torchrun.py")
"""What starts several processes: torchrun with a store that this machine alone can reach."""


def this_command(processes: int = 1) -> str:
    """Return the command that runs this program, as a user types it in the present working folder.

    Several processes of a host are started by our torchrun.
    """
    if processes > 1:
        *python, program = shlex.split(this_command())
        start = [*python, shlex.split(_path(str(_RANKS_SCRIPT)))[0]] if python else [_RANKS]
        return shell_command([*start, f"--nproc-per-node={processes}", *([] if python else ["--no-python"]), program])
    if Path(sys.argv[0]).stem == "longstride":
        return _typed(sys.argv[0])
    return f"{_typed(sys.executable)} {_path(str(_SCRIPT))}" if _SCRIPT.is_file() else "longstride"


def _typed(program: str) -> str:
    """Return a program as a user types it: its name where the shell finds it by that, else its path."""
    name = os.path.basename(program)
    found = shutil.which(name)
    return name if name == program or (found and os.path.abspath(found) == program) else _path(program)


def _path(path: str) -> str:
    """Return a path, quoted for a shell and relative if it is below the working folder."""
    return shell_word(path.removeprefix(os.path.join(os.getcwd(), "")))


def reason(error: Exception) -> str:
    """Return the reason of an error for the end of a sentence, without a full stop of its own."""
    return str(getattr(error, "strerror", None) or error).rstrip(". ")


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return how a sentence about an unknown name ends: ``; did you mean X?``, ``; otherwise.`` or a full stop.

    Upper and lower case are alike, and X is written as in ``known``.
    """
    written = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), list(written), 1)
    if near:
        return f"; did you mean {written[near[0]]}?"
    return f"; {otherwise}." if otherwise else "."


def one_line(error: BaseException) -> str:
    """Return the text of an error as at most 300 characters of one line, without a full stop; Numba's fill screens."""
    return " ".join(str(error).split())[:300].rstrip(".")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without a full stop; the name of its type if it has no text."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


class UserError(Exception):
    """Bad input: one sentence that says what was wrong, where, and what to do (exit code 2).

    ``alone`` says of an error in one of several processes whether it prints it, as no other one does; it is None of one
    from before they have found each other.
    """

    alone: bool | None = None


class SimulatorError(UserError):
    """A simulator broke its contract; the message names the episode and the step."""


PLAYING = "play episodes"
"""What names of threads begin with that play episodes: they cannot be stopped, and Python waits for them at its end."""


class EndlessEpisodeError(SimulatorError):
    """A simulator does not return; compiled code cannot be interrupted, so the process has to end."""


class PolicyNotFiniteError(SimulatorError):
    """The outputs of the policy were NaN or infinite during collection: its parameters have diverged."""


class OutcomeError(SimulatorError):
    """A simulator broke its contract in a further outcome of a step, which no episode contains."""


class GpuLostError(UserError):
    """A GPU failed; this process cannot use CUDA again, not even to shut it down."""


class RankLostError(UserError):
    """Another process of a run has ended; this one cannot go on, nor end its part in an orderly way."""


class NotSavedError(UserError):
    """A run finished, but some of its files could not be written (exit code 1)."""
