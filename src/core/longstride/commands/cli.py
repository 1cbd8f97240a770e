"""The command line: flags, modes, errors and exit codes."""

import errno
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from longstride.commands.flags import make_parser
from longstride.commands.interrupts import Interrupt, remembered_interrupt
from longstride.commands.recommend.service.processes.signals import end_well_while_starting
from longstride.config import Config, load_config
from longstride.errors import (
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
from longstride.terminal import make_console, say_error, say_on
from longstride.text import Say

_HELD_OUT = ("finalists", "held_out_seeds")
"""Flags of the comparison at the end of a sweep."""

_SERVICE = ("serve", "host", "token_file", "workers", "access_log")
"""Flags of a service of recommendations."""

_USES: dict[str, tuple[str, ...]] = {
    "train": ("resume", "no_report", "verbose", "trust_simulator"),
    "evaluate": ("checkpoint", "policy", "no_report", "trust_simulator"),
    "report": ("further_runs",),
    "whatif": ("checkpoint", "policy", "change", "cost_per_person", "further_scenarios", "no_report"),
    "plan": ("gpu", "verbose"),
    "doctor": ("trust_simulator",),
    "replay": ("iteration", "trust_simulator"),
    "ab": ("a", "b", "pairs"),
    "recommend": ("checkpoint", "state", "at", "on_shift", "json", "top", *_SERVICE),
    "export": ("checkpoint", "output", "format"),
    "sweep": ("sweep", "sweep_file", "sweep_objective", "trials", "sweep_minutes", "no_pruning", *_HELD_OUT),
    "track": ("to", "follow"),
}
"""The flags of each mode beside hyperparameters, which all of them take."""

EXIT_NOT_SAVED, EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_NO_READER = 1, 2, 130, 141

_NO_THREADS = "can't start new thread", "Failed to create thread", "Resource temporarily unavailable"
_NO_MEMORY = "can't allocate memory", "failed to map segment", "cannot allocate memory", "Cannot allocate memory"
"""Words of errors that Python, torch and the loader of libraries raise where a limit of the system is met."""

_RESULTS_ARE_FILES = ("train", "sweep", "ab", "track")
"""Modes whose work is complete even if their output cannot be written."""

_READ_SETTINGS = ("train", "plan", "sweep", "ab", "doctor")
"""The modes that read a hyperparameters file which the command line does not name."""

_OF_A_CHECKPOINT = ("evaluate", "whatif")
"""The modes that read it only without a checkpoint: they play the simulator that is set then."""


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
    """Run the installed command ``longstride`` with hyperparameters.py of the working folder, if there is one."""
    file = Path("hyperparameters.py")
    return main(default_file=file if file.is_file() else None)


def console_of_output() -> Console:
    """Return the console of standard output: as wide as a terminal, else as ``COLUMNS`` or 200 characters."""
    columns = os.environ.get("COLUMNS", "")
    return make_console(
        width=None if sys.stdout.isatty() else int(columns) if columns.isdecimal() and int(columns) else 200
    )


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
    options = vars(make_parser(list(_USES)).parse_known_flags(_joined(arguments)))
    mode, named = options.pop("mode"), options.pop("hyperparameters")
    names = dict.fromkeys(name for used in _USES.values() for name in used)
    own = {name: options.pop(name, None) for name in names}
    default_file = default_file if _reads_settings(mode, own) and not named else None
    config, sources = load_config(named or default_file, options)
    _refuse(own, mode)
    code = _run_named(mode, own, (config, sources), options, named, default_file)
    return code if mode in _RESULTS_ARE_FILES or own["serve"] is not None else _unless_lost(code)


def _run_named(
    mode: str,
    own: dict[str, Any],
    settings: tuple[Config, dict[str, str]],
    options: dict[str, Any],
    named: Path | None,
    default_file: Path | None,
) -> int:
    """Run a mode; each one imports what it needs, which takes seconds."""
    config, sources = settings
    if mode != "train":
        Launch.from_environment().require_one_process(mode)
    say = say_on(console := console_of_output())
    _say_settings(default_file, say)
    if mode == "train":
        from longstride.commands.train import Choices, run_train, wants_report

        wanted, trust = wants_report(own["no_report"]), own["trust_simulator"]
        return run_train(config, sources, Choices(own["resume"], named, wanted, own["verbose"], trust), console, say)
    if mode == "evaluate":
        from longstride.commands.evaluate import Asked, run_evaluate
        from longstride.commands.train import wants_report

        asked = Asked(own["checkpoint"], own["policy"], wants_report(own["no_report"]), own["trust_simulator"])
        return run_evaluate(config, sources, asked, console, say)
    if mode == "whatif":
        return _run_whatif(config, sources, own, console, say)
    if mode == "report":
        from longstride.commands.report import run_report

        return run_report([*filter(None, [config.run_directory]), *(own["further_runs"] or [])], say)
    if mode == "track":
        from longstride.commands.track.command import run_track

        return run_track(config.run_directory, own["to"], own["follow"], say)
    if mode == "doctor":
        from longstride.commands.doctor.command import run_doctor

        return run_doctor(config, sources, own["trust_simulator"], console, say)
    if mode == "replay":
        from longstride.commands.replay import run_replay

        return run_replay(config, sources, own["iteration"], own["trust_simulator"], console, say)
    if mode == "export":
        from longstride.commands.export.command import run_export

        return run_export(config, sources, own["checkpoint"], own["output"], own["format"], console, say)
    if mode == "recommend":
        return _run_recommend(config, sources, own, console, say)
    if mode == "plan":
        from longstride.commands.plan.command import Wanted, run_plan

        path = run_plan(config, sources, Wanted(own["gpu"], named, own["verbose"]), console, say)
    else:
        path = _compare_settings(mode, own, config, options, named or default_file, console)
    say(f"Written to {path}.")
    return 0


def _reads_settings(mode: str, own: dict[str, Any]) -> bool:
    """Return whether a mode needs the settings of a file that the command line does not name."""
    return mode in _READ_SETTINGS or (mode in _OF_A_CHECKPOINT and not own["checkpoint"])


def _say_settings(file: Path | None, say: Say) -> None:
    """Say that the settings file of the working folder was run; that of a checkout is named by its whole path."""
    if file and not file.is_absolute() and os.environ.get("RANK", "0") == "0":
        say(f"Settings from {file} of this folder.")


def _run_recommend(config: Config, sources: dict[str, str], own: dict[str, Any], console: Console, say: Say) -> int:
    """Recommend once, or serve; a service ends well at a signal, from before it imports what takes seconds."""
    with nullcontext() if own["serve"] is None else end_well_while_starting():
        from longstride.commands.recommend.command import Asked, run_recommend

        return run_recommend(config, sources, Asked(**{name: own[name] for name in _USES["recommend"]}), console, say)


def _compare_settings(
    mode: str, own: dict[str, Any], config: Config, options: dict[str, Any], file: Path | None, console: Console
) -> Path:
    """Run one of the modes that train with several settings, and return the path of its result."""
    say = say_on(console)
    if mode == "sweep":
        from longstride.commands.sweep.command import run_sweep
        from longstride.commands.sweep.sweep import asked_of, read_sweep

        return run_sweep(read_sweep(asked_of(own), config, options, file), console, say)
    from longstride.commands.ab.command import PAIRS, read_comparison, run_ab

    comparison = read_comparison(own["a"], own["b"], config, options, file)
    return run_ab(comparison, PAIRS if own["pairs"] is None else own["pairs"], console, say)


def _run_whatif(config: Config, sources: dict[str, str], own: dict[str, Any], console: Console, say: Say) -> int:
    from longstride.commands.train import wants_report
    from longstride.commands.whatif.command import Asked, run_whatif

    asked = Asked(
        checkpoint=own["checkpoint"],
        policies=own["policy"],
        changes=own["change"] or [],
        further_scenarios=own["further_scenarios"] or [],
        cost=own["cost_per_person"] or 0.0,
        report=wants_report(own["no_report"]),
    )
    return run_whatif(config, sources, asked, console, say)


def _refuse(own: dict[str, Any], mode: str) -> None:
    """Refuse flags that mean nothing in a mode, so that nobody believes they did something."""
    for name, value in own.items():
        if name == "further_runs" and value and mode != "report":
            raise UserError(f"Unknown argument {value[0]}; --run-directory takes several only with --mode report.")
        if name == "further_scenarios" and value and mode != "whatif":
            raise UserError(f"Unknown argument {value[0]}; --scenario takes several only with --mode whatif.")
        if name not in _USES[mode] and value is not None and value is not False:
            raise UserError(f"--{name.replace('_', '-')} does not go with --mode {mode}.")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return arguments with ``--a X`` as ``--a=X``, and b alike: X is flags itself, which argparse would take apart."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--a", "--b") and argument not in ("--a", "--b"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined
