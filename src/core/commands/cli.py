"""What each --mode does: a short function each."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from core.commands.interrupt import StopOnInterrupt
from core.config import Config, Parser, add_flags, load_config
from core.errors import EndlessEpisodeError, GpuLostError, NotSavedError, UserError, this_command
from core.text import format_duration

_USES: dict[str, tuple[str, ...]] = {
    "train": ("resume",),
    "evaluate": ("checkpoint", "policy"),
    "plan": ("gpu",),
    "doctor": (),
    "replay": ("episode",),
    "ab": ("a", "b", "pairs"),
}
"""The flags of each mode beside hyperparameters, which all of them take."""

EXIT_NOT_SAVED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None, default_file: Path | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: of the command line; ``sys.argv`` by default.
        default_file: hyperparameters file to read where none is named.
    """
    try:
        options = vars(_parser().parse_known_flags(_joined(sys.argv[1:] if arguments is None else arguments)))
        mode, named = options.pop("mode"), options.pop("hyperparameters")
        file = named or default_file
        own = {name: options.pop(name) for names in _USES.values() for name in names}
        config, sources = load_config(file, options)
        _refuse(own, mode)
        if mode == "train":
            return train(config, sources, own["resume"])
        if mode == "doctor":
            return doctor(config, sources)
        if mode == "plan":
            return plan(config, sources, own["gpu"], named)
        if mode == "replay":
            return replay(config, sources, own["episode"])
        if mode == "ab":
            return ab(config, options, file, own["a"], own["b"], own["pairs"])
        return evaluate(config, sources, own["checkpoint"], own["policy"])
    # The thread of the first cannot be stopped and would keep the process alive; after the second, what frees pinned
    # memory and events while Python ends may abort the process, with another exit code.
    except (EndlessEpisodeError, GpuLostError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(EXIT_BAD_INPUT)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_NOT_SAVED if isinstance(error, NotSavedError) else EXIT_BAD_INPUT
    except OSError as error:  # what is left: a disk or permission that failed outside of the places that say more
        print(f"error: {error.strerror or error}: {error.filename}; nothing saved before is lost.", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("Interrupted; what was saved before is untouched.", file=sys.stderr)
        return EXIT_INTERRUPTED


def installed() -> int:
    """Run the installed command ``longstride``: hyperparameters.py of the working folder counts, if there is one."""
    file = Path("hyperparameters.py")
    return main(default_file=file if file.is_file() else None)


def train(config: Config, sources: dict[str, str], resume: bool) -> int:
    """Train a policy and leave a run directory behind."""
    from core.training.build.run import build_run
    from core.training.resume import of_how_many

    console = _console()
    run = build_run(config, sources, resume, lambda text: _say(console, text))
    with StopOnInterrupt(lambda text: _say(console, text), signal.SIGINT, signal.SIGTERM) as interrupt:
        done = run.train(console, interrupt.requested)
    directory, trainer, budget = run.directory, run.trainer, run.trainer.budget
    command = f"{this_command()} --mode evaluate --checkpoint {directory}"
    if done and budget is not None and trainer.episode < trainer.settings.episodes:
        whole, elapsed = format_duration(budget.seconds), format_duration(budget.elapsed)
        done_episodes = f"{trainer.episode}{of_how_many(trainer)} training episodes are done"
        _say(console, f"The time budget of {whole} ended the run after {elapsed}: {done_episodes}.")
    if done:
        _say(console, f"Trained {trainer.episode} episodes; everything is in {directory}.")
        _say(console, f"Compare the policy with the simulator's heuristics: {command}")
        return 0
    _say(console, f"Stopped after episode {trainer.episode}{of_how_many(trainer)}; everything is saved.")
    _say(
        console,
        f"Go on: {this_command()} --mode train --resume --run-directory {directory} (and the same settings)",
    )
    return EXIT_INTERRUPTED


def evaluate(config: Config, sources: dict[str, str], checkpoint: str | None, policies: str | None) -> int:
    """Compare a trained policy and heuristics on the same random streams."""
    from core.commands.evaluate import evaluation_table, run_evaluation
    from core.training.run_directory.files import write_json

    console = _console()
    if checkpoint is None and policies is None:
        raise UserError(
            "--mode evaluate needs --checkpoint DIR (a run or one of its checkpoints) or --policy NAME,NAME."
        )
    names = [name.strip() for name in policies.split(",") if name.strip()] if policies else None
    result, simulator = run_evaluation(
        config, sources, Path(checkpoint) if checkpoint else None, names, lambda text: _say(console, text)
    )
    console.print(evaluation_table(result, simulator))
    for message in result.messages[:3]:
        _say(console, message)
    directory = Path(config.run_directory or checkpoint or ".")
    if not config.run_directory and checkpoint:
        directory = _run_of(directory)
    path = directory / "evaluation.json"
    write_json(path, result.as_json())
    _say(console, f"Written to {path}.")
    return 0


def plan(config: Config, sources: dict[str, str], gpu: str | None, file: Path | None) -> int:
    """Say how a run would use this machine or a card of the catalogue, and write plan.json."""
    from core.commands.plan.command import run_plan

    console = _console()
    path = run_plan(config, sources, gpu, file, console, lambda text: _say(console, text))
    _say(console, f"Written to {path}.")
    return 0


def doctor(config: Config, sources: dict[str, str]) -> int:
    """Check machine, settings and, with a run directory, what a run measured; return 1 if something is broken."""
    from core.commands.doctor.command import run_doctor

    console = _console()
    return run_doctor(config, sources, console, lambda text: _say(console, text))


def replay(config: Config, sources: dict[str, str], episode: int | None) -> int:
    """Play a training episode of a run again; return 1 if anything is not as it was."""
    from core.commands.replay import run_replay
    from core.training.failures import report_gpu_loss

    console = _console()
    if episode is None:
        raise UserError("--mode replay needs --episode N, a training episode of the run in --run-directory.")
    with report_gpu_loss():
        return 0 if run_replay(config, sources, episode, console, lambda text: _say(console, text)) else 1


def ab(
    config: Config, options: dict[str, Any], file: Path | None, a: str | None, b: str | None, pairs: int | None
) -> int:
    """Compare two settings by interleaved pairs of runs."""
    from core.commands.ab.command import PAIRS, read_comparison, run_ab

    console = _console()
    comparison = read_comparison(a, b, config, options, file)
    path = run_ab(comparison, PAIRS if pairs is None else pairs, console, lambda text: _say(console, text))
    _say(console, f"Written to {path}.")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog=this_command(),
        description="Train and evaluate policies on long, single-stream simulations.",
        allow_abbrev=False,
    )
    parser.add_argument("--mode", choices=list(_USES), default="train", help="what to do (default: train)")
    parser.add_argument("--hyperparameters", type=Path, metavar="FILE", help="in place of hyperparameters.py")
    parser.add_argument("--gpu", metavar="NAME", help="plan: a card of the catalogue (default: this machine)")
    parser.add_argument("--resume", action="store_true", help="train: go on with the run in --run-directory")
    parser.add_argument("--checkpoint", metavar="DIR", help="evaluate: a run directory or one of its checkpoints")
    parser.add_argument("--episode", type=int, metavar="N", help="replay: the training episode to play again")
    parser.add_argument("--policy", metavar="NAME,...", help="evaluate: heuristics to play (all of them by default)")
    parser.add_argument("--a", metavar="FLAGS", help='ab: flags of side A, for example "--no-auto-batch-size"')
    parser.add_argument("--b", metavar="FLAGS", help="ab: flags of side B")
    parser.add_argument("--pairs", type=int, metavar="N", help="ab: runs of each side (default: 5)")
    add_flags(parser)
    return parser


def _refuse(own: dict[str, Any], mode: str) -> None:
    """Refuse flags that mean nothing in a mode, so that nobody believes they did something."""
    for name, value in own.items():
        if name not in _USES[mode] and value is not None and value is not False:
            raise UserError(f"--{name} does not go with --mode {mode}.")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return arguments with ``--a X`` as ``--a=X``, and b alike: X is flags itself, which argparse would take apart."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--a", "--b") and argument not in ("--a", "--b"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _run_of(directory: Path) -> Path:
    """Return the run directory of a checkpoint directory (or itself)."""
    return directory.parents[1] if directory.parent.name == "checkpoints" else directory


def _console() -> Console:
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "200"))
    return Console(width=width)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
