"""The command line: flags, modes, errors and exit codes."""

import errno
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from longstride.api.interrupts import Interrupt, remembered_interrupt
from longstride.commands.ab.mode import AB
from longstride.commands.completion import completion_of
from longstride.commands.doctor.mode import DOCTOR
from longstride.commands.evaluate.mode import EVALUATE
from longstride.commands.export.mode import EXPORT
from longstride.commands.flags import asks_for_overview, overview, own_flags, read_flags, without_effect
from longstride.commands.init.mode import INIT
from longstride.commands.mode import Call
from longstride.commands.plan.mode import PLAN
from longstride.commands.replay.mode import REPLAY
from longstride.commands.report.mode import REPORT
from longstride.commands.sweep.mode import SWEEP
from longstride.commands.track.mode import TRACK
from longstride.commands.train.mode import TRAIN
from longstride.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    EXIT_NOT_SAVED,
    PLAYING,
    EndlessEpisodeError,
    GpuLostError,
    NotSavedError,
    RankLostError,
    UserError,
    one_line,
)
from longstride.learning.distributed.launch import Launch
from longstride.output import keep_output, lost_output, note_error
from longstride.process.backtest.mode import BACKTEST
from longstride.process.front.mode import FRONT
from longstride.process.recommend.mode import RECOMMEND
from longstride.process.staff.mode import STAFF
from longstride.process.whatif.mode import WHATIF
from longstride.setting_groups.former import renamed
from longstride.settings import load_settings
from longstride.terminal import console_of_output, make_console, say_error, say_on
from longstride.text import Say
from longstride.version import __version__

MODES = (
    TRAIN,
    EVALUATE,
    REPORT,
    WHATIF,
    FRONT,
    STAFF,
    BACKTEST,
    PLAN,
    DOCTOR,
    REPLAY,
    AB,
    RECOMMEND,
    EXPORT,
    SWEEP,
    TRACK,
    INIT,
)
"""All modes, in the order of ``--help``."""

_NO_THREADS = "can't start new thread", "Failed to create thread", "Resource temporarily unavailable"
_NO_MEMORY = "can't allocate memory", "failed to map segment", "cannot allocate memory", "Cannot allocate memory"
"""Words of errors that Python, torch and the loader of libraries raise where a limit of the system is met."""


def main(arguments: Sequence[str] | None = None, default_file: Path | None = None) -> int:
    """Run a command line, by default that of this process, and return its exit code.

    ``default_file`` has the hyperparameters where the command line names no file.
    """
    keep_output()
    with remembered_interrupt() as interrupt:
        return _exit_code(sys.argv[1:] if arguments is None else arguments, default_file, interrupt)


def _exit_code(arguments: Sequence[str], default_file: Path | None, interrupt: Interrupt) -> int:
    """Run a command line, and return its exit code; errors are printed."""
    try:
        return _run_mode(arguments, default_file)
    # The thread of the first cannot be stopped and would keep the process alive. After the second, what frees pinned
    # memory and events while Python ends may abort the process, with another exit code.
    # The third leaves connections to processes that are gone, which would be waited for.
    # After Ctrl-C the threads that play would be waited for, too, and what the compiler leaves half done may abort the
    # process.
    except (EndlessEpisodeError, GpuLostError, RankLostError) as error:
        _print_error(error)
        sys.stdout.flush()
        os._exit(EXIT_BAD_INPUT)
    except UserError as error:
        _print_error(error)
        return EXIT_NOT_SAVED if isinstance(error, NotSavedError) else EXIT_BAD_INPUT
    except OSError as error:  # a disk or permission that failed outside of the places that say more
        where = f": {error.filename}" if error.filename else ""
        say_error(f"{error.strerror or error}{where}; nothing saved before is lost.")
        return EXIT_BAD_INPUT
    except (MemoryError, RuntimeError, ImportError) as error:
        if (sentence := sentence_of_limits(error)) is None:
            raise
        say_error(sentence)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":
            print("Interrupted; what was saved before is untouched.", file=sys.stderr)
        if interrupt.asked or any(thread.name.startswith(PLAYING) for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED


def sentence_of_limits(error: BaseException) -> str | None:
    """Return the sentence about an error of a process that may have no more memory or threads; None for another one."""
    text, kept = str(error), "What was saved before is untouched."
    if any(words in text for words in _NO_THREADS):
        return f"The system allows this process no more threads. Raise its limits (ulimit -u, ulimit -v). {kept}"
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        detail = f" ({one_line(error)})" if text else ""
        return f"There is not enough memory{detail}. Use smaller settings, or raise the limit (ulimit -v). {kept}"
    return None


def _print_error(error: UserError) -> None:
    """Print the sentence of an error, unless another process of the run, or of this host, prints it."""
    rank = os.environ.get("RANK", "0")
    if error.alone or (error.alone is None and os.environ.get("LOCAL_RANK", "0") == "0"):
        say_error(f"rank {rank}: {error}" if rank != "0" else error)
        note_error(f"error: {error}")


def installed() -> int:
    """Run the installed command ``longstride`` with hyperparameters.py of the working folder, if there is one.

    Without any word it prints what it can do.
    """
    if not sys.argv[1:]:
        print(overview(MODES))
        return 0
    file = Path("hyperparameters.py")
    return main(default_file=file if file.is_file() else None)


def _unless_lost(code: int) -> int:
    """Return the exit code of a mode whose result is what it printed: another one where that could not be written."""
    lost = lost_output()
    if code or lost is None:
        return code
    if lost.errno == errno.EPIPE:  # as a program that SIGPIPE has ended, of which a shell says the same
        return EXIT_NO_READER
    say_error(f"Standard output cannot be written: {lost.strerror}.")
    return EXIT_NOT_SAVED


def _run_mode(arguments: Sequence[str], default_file: Path | None) -> int:
    """Read a command line, run its mode, and return the exit code."""
    if asks_for_overview(arguments, MODES):
        print(overview(MODES))
        return 0
    if arguments and arguments[0] == "--version":
        print(f"longstride {__version__}")
        return 0
    if arguments and arguments[0].startswith("--print-completion"):
        print(completion_of(MODES, arguments[0].partition("=")[2] or "".join(arguments[1:2])))
        return 0
    mode, options = read_flags(arguments, MODES)
    own = own_flags(options)
    named = own.pop("hyperparameters")
    default_file = default_file if mode.reads_settings(own) and not named else None
    settings, options = load_settings(named or default_file, options), renamed(options)
    if mode is not TRAIN:
        Launch.from_environment().require_one_process(mode.name)
    say = say_on(console := console_of_output())
    _say_settings(default_file, settings.notes, say)
    settings = settings.told(lambda note: None)
    if mode.is_slow and os.environ.get("RANK", "0") == "0":
        say("Loading PyTorch and the simulator ...")
    code = mode.run(Call(settings, own, options, named, named or default_file, console, say))
    if unread := without_effect(mode, options):
        say_on(make_console(stderr=True))(unread)
    return code if mode.has_a_result(own) else _unless_lost(code)


def _say_settings(file: Path | None, notes: Iterable[str], say: Say) -> None:
    """Say that the settings file of the working folder was run (that of a checkout is as usual), and the notes."""
    if os.environ.get("RANK", "0") == "0":
        if file and not file.is_absolute():
            say(f"Settings from {file} of this folder.")
        for note in notes:
            say(note)
