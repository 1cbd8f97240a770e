"""A training from its settings to its end: what ``longstride.train`` and ``--mode train`` have in common."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from longstride.api.interrupts import StopOnInterrupt
from longstride.config import Config
from longstride.learning.distributed.join import joined_ranks
from longstride.learning.distributed.launch import Launch, see_own_gpu
from longstride.learning.distributed.ranks import Ranks, wait_for_all
from longstride.settings import Settings
from longstride.simulators.hooks import close_all
from longstride.simulators.loading import LoadedSimulator
from longstride.text import Say
from longstride.training.assembly.run import Run, build_run
from longstride.training.assembly.simulator_trust import remember_simulator
from longstride.training.extensions import NO_EXTENSIONS, Extensions
from longstride.training.run_directory.directory import RunDirectory

_SAME_REQUEST = 2.0
"""Seconds in which a signal that comes again, from torchrun after the terminal, is the same request to stop."""


@dataclass(frozen=True)
class TrainOptions:
    """What is said of a training beside its settings."""

    resume: bool = False  # whether the run in the run directory continues
    file: Path | None = None  # hyperparameters file that the user named, for the command to resume
    report: bool = True  # whether report.html is written at the end
    verbose: bool = False  # whether every choice of the plan is printed
    trust: bool = False  # whether the source of a resumed run's simulator may run although it is not what was named
    extensions: Extensions = NO_EXTENSIONS  # parts of a program


@dataclass(frozen=True)
class Start:
    """What a training begins with."""

    settings: Settings
    loaded: LoadedSimulator | None = None  # simulator; None for the one that the settings name
    is_named: bool = True  # whether the user has named the simulator, which is remembered then


Begin = Callable[[bool, Ranks, Say], Start]
"""Returns what a training begins with, by whether it resumes a run; what it says is printed once."""


@dataclass(frozen=True)
class Training:
    """A training that is ready, as one of some ranks."""

    start: Start
    run: Run
    ranks: Ranks
    say: Say  # prints on the first rank alone

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and prints."""
        return self.ranks.rank == 0

    def train(self, console: Console, *signals: signal.Signals) -> bool:
        """Train until the end or the first of some signals; return whether everything is done."""
        with stop_on_interrupt(self.say, self.ranks, *signals) as interrupt:
            return self.run.train(console, interrupt.requested)


@contextmanager
def open_training(given: Settings, options: TrainOptions, begin: Begin, say: Say) -> Iterator[Training]:
    """Join the other processes of a run, and build it from what :data:`Begin` returns.

    Raises:
        UserError: the input, the run directory or the checkpoint is not right.
    """
    launch = Launch.from_environment()
    with _ranks_of(launch, given.config) as ranks:
        say = say if ranks.rank == 0 else _silent
        resume = ranks.from_first(lambda: options.resume or _starts_again(launch, given.config, say))
        start = begin(resume, ranks, say)
        shown = options.file, options.verbose
        run = build_run(start.settings, resume, say, start.loaded, *shown, ranks, options.extensions)
        if ranks.rank == 0 and start.is_named:
            remember_simulator(run.trainer.metadata["source"])
        try:
            yield Training(start, run, ranks, say)
        finally:
            for line in [*run.trainer.observer.end(), *close_all(run.trainer.simulator)]:
                say(line)


def stop_on_interrupt(say: Say, ranks: Ranks, *signals: signal.Signals) -> StopOnInterrupt:
    """Return what turns signals into a request to stop, once all ranks are here: one means the same to each of them."""
    wait_for_all(ranks)
    return StopOnInterrupt(say, *signals, once_for=_SAME_REQUEST if ranks.size > 1 else 0.0)


def _ranks_of(launch: Launch, config: Config) -> AbstractContextManager[Ranks]:
    """Join the other processes of a run, each with a GPU of its own where GPUs are used."""
    launch.require_directory(config.run_directory)
    if config.device != "cpu":
        see_own_gpu(launch)
    return joined_ranks(launch)


def _starts_again(launch: Launch, config: Config, say: Say) -> bool:
    """Return whether torchrun has started the processes again, and there is a run to go on with."""
    if not launch.restarts:
        return False
    held = RunDirectory(config.run_directory).holds_run()
    how = "from the last checkpoint" if held else "at the beginning, as there is no checkpoint yet"
    say(
        f"torchrun has started the processes again ({launch.restarts} of {launch.most_restarts} times): training {how}."
    )
    return held


def _silent(text: str) -> None:
    """Print nothing: the first rank prints."""
