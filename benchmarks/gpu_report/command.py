"""The command line of the report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks.gpu_report.parts import BY_NAME, PARTS, Part
from benchmarks.gpu_report.process import ROOT
from benchmarks.gpu_report.report_file import Report, open_report
from benchmarks.gpu_report.runner import Files, Runner, ask_facts
from longstride.errors import UserError, suggestion
from longstride.text import counted

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
MINUTES = 25.0


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raise a UserError in place of printing the usage and exiting."""
        raise UserError(message[0].upper() + message[1:].rstrip(".") + "; see --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of this process, and return its exit code."""
    try:
        options = parser().parse_args(arguments)
        return run_command(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"error: {error.strerror or error}: {error.filename}; finished parts are kept.", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("Interrupted; finished parts are kept, and the same command goes on after them.", file=sys.stderr)
        return EXIT_INTERRUPTED


def parser() -> Parser:
    """Return the parser of the command line."""
    made = Parser(
        prog="gpu_report.py",
        description="Make every GPU measurement that is missing. What is done is kept; call it again to go on.",
        allow_abbrev=False,
    )
    made.add_argument("--directory", type=Path, help="where the report goes (default: runs/gpu_report)")
    made.add_argument("--only", nargs="+", type=_name, metavar="NAME", help="these parts; --list names all")
    made.add_argument("--again", nargs="+", type=_name, default=[], metavar="NAME", help="parts to run though done")
    made.add_argument("--fresh", action="store_true", help="begin a new report in place of the one that is there")
    made.add_argument("--limit", type=_minutes, default=MINUTES, metavar="MINUTES", help=f"default: {MINUTES:.0f}")
    made.add_argument("--list", action="store_true", help="list the parts and their time limits, and run nothing")
    made.add_argument(
        *("--rehearse",),
        action="store_true",
        help="run on the CPU, at small sizes, what can run there; the figures mean nothing",
    )
    return made


def run_command(options: argparse.Namespace) -> int:
    """Run or list parts; return the exit code: 1 where a part failed."""
    chosen = [part for part in PARTS if not options.only or part.name in (*options.only, *options.again)]
    if options.list:
        print("\n".join(f"{part.name.ljust(20)} {part.seconds:>4} s  {part.title}" for part in chosen))
        return 0
    folder = "gpu_report_rehearsal" if options.rehearse else "gpu_report"
    files = Files((options.directory or ROOT / "runs" / folder).resolve())
    facts = ask_facts(files, options.rehearse)
    if options.rehearse:
        facts["card"] = None
    report = open_report(files.json, facts, options.fresh)
    print(f"{facts['card']}, driver {facts['driver']}." if facts["card"] else f"No GPU: {facts['no_gpu'] or 'unused'}.")
    runner = Runner(report, files, 60 * options.limit, _say)
    runner.run(chosen, options.again)
    runner.write()
    runner.pack()
    return conclude(report, chosen, files)


def conclude(report: Report, chosen: Sequence[Part], files: Files) -> int:
    """Say what is done and what is not; return the exit code."""
    states = [report.results[part.name].state for part in chosen]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    print(f"{counted(len(chosen), 'part')}: {', '.join(f'{n} {state}' for state, n in counts.items())}.")
    print(f"Written to {files.json} and {files.markdown}, and all of it packed into {files.packed}.")
    if "no time left" in states:
        print("The same command goes on with the parts that had no time left.")
    problems = counts.get("failed", 0) + counts.get("timed out", 0)
    if problems:
        print("Parts that failed or timed out run again with the same command; their output is in parts/NAME.log.")
    return EXIT_FAILED if problems else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _name(text: str) -> str:
    if text not in BY_NAME:
        raise argparse.ArgumentTypeError(f"there is no part {text!r}{suggestion(text, BY_NAME, 'see --list')}")
    return text


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0.0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} should be minutes above 0, for example {MINUTES:.0f}")
    return minutes
