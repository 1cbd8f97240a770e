"""--mode train: train a policy and leave a run directory behind."""

import os
import signal
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from longstride.commands.interrupts import StopOnInterrupt, ending_signals
from longstride.commands.report.command import report_at_the_end
from longstride.config import Config
from longstride.errors import this_command
from longstride.escaping import shell_word
from longstride.learning.distributed.join import joined_ranks
from longstride.learning.distributed.launch import Launch, see_own_gpu
from longstride.learning.distributed.ranks import Ranks, wait_for_all
from longstride.text import Say, counted, format_duration
from longstride.training.assembly.last_check import SHORT_RUN, last_check
from longstride.training.assembly.resumed_settings import ResumedSettings, resumed_settings
from longstride.training.assembly.run import Run, build_run
from longstride.training.assembly.simulator_trust import remember_simulator, require_trusted_run
from longstride.training.assembly.untrained import with_untrained
from longstride.training.evaluation.trained_policy import TrainedPolicy, load_trained_policy
from longstride.training.run_directory.checkpoint import checkpoint_folder
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.lock import is_locked
from longstride.training.time_budget import Budget

EXIT_INTERRUPTED = 130

_SAME_REQUEST = 2.0
"""Seconds in which a signal that comes again, from torchrun after the terminal, is the same request to stop."""

REPORT = "LONGSTRIDE_REPORT"
"""Environment variable: with ``off`` no report is written at the end of a training or an evaluation."""


@dataclass(frozen=True)
class Choices:
    """What the command line says of a training beside the settings."""

    resume: bool = False  # whether the run in the run directory continues
    file: Path | None = None  # hyperparameters file that the user named, for the command to resume
    report: bool = True  # whether report.html is written at the end
    verbose: bool = False  # whether every choice of the plan is printed
    trust: bool = False  # whether the source of a resumed run's simulator may run although it is not what was named


def wants_report(refused: bool) -> bool:
    """Return whether a report is written: neither a flag nor the environment refuses it."""
    return not refused and os.environ.get(REPORT, "").lower() != "off"


def run_train(config: Config, sources: dict[str, str], choices: Choices, console: Console, say: Say) -> int:
    """Train, and return the exit code: 130 where somebody asked to stop."""
    launch, named = Launch.from_environment(), sources["simulator"] == "flag"
    with ranks_of(launch, config) as ranks:
        say = say if ranks.rank == 0 else _silent
        resume = ranks.from_first(lambda: choices.resume or starts_again(launch, config, say))
        if resume:
            resumed = ranks.from_first(lambda: _settings_to_resume(config, sources, choices))
            require_trusted_run(resumed.config, Path(config.run_directory), config, sources, choices.trust)
            config, sources = resumed.config, resumed.sources
            for line in resumed.lines:
                say(line)
        run = build_run(config, sources, resume, say, file=choices.file, verbose=choices.verbose, ranks=ranks)
        if ranks.rank == 0 and (named or not resume):
            remember_simulator(run.trainer.metadata["source"])
        if not run.trainer.unfinished:
            say("Nothing is left to train: name a larger --training-episodes to train on.")
        begin = time.monotonic()
        with stop_on_interrupt(say, ranks, *ending_signals()) as interrupt:
            done = run.train(console, interrupt.requested)
        if ranks.rank == 0:
            for line in _checked(run) if done and time.monotonic() - begin >= SHORT_RUN else []:
                say(line)
            if choices.report and run.trainer.iteration:
                report_at_the_end(run.directory, say, run.trainer.simulator)
            for line in _last_lines(run, done):
                say(line)
    return 0 if done else EXIT_INTERRUPTED


def ranks_of(launch: Launch, config: Config) -> AbstractContextManager[Ranks]:
    """Join the other processes of a run, each with a GPU of its own where GPUs are used."""
    launch.require_directory(config.run_directory)
    if config.device != "cpu":
        see_own_gpu(launch)
    return joined_ranks(launch)


def starts_again(launch: Launch, config: Config, say: Say) -> bool:
    """Return whether torchrun has started the processes again, and there is a run to go on with."""
    if not launch.restarts:
        return False
    held = RunDirectory(config.run_directory).holds_run()
    how = "from the last checkpoint" if held else "at the beginning, as there is no checkpoint yet"
    say(
        f"torchrun has started the processes again ({launch.restarts} of {launch.most_restarts} times): training {how}."
    )
    return held


def _settings_to_resume(config: Config, sources: dict[str, str], choices: Choices) -> ResumedSettings:
    """Return the settings of the run to go on with.

    Raises:
        UserError: there is no checkpoint, or the settings cannot be those of the run.
    """
    if config.run_directory and not is_locked(Path(config.run_directory)):  # who trains there is named later
        checkpoint_folder(Path(config.run_directory))
    return resumed_settings(config, sources, str(choices.file or "hyperparameters.py"))


def _silent(text: str) -> None:
    """Print nothing: the first rank prints."""


def _checked(run: Run) -> list[str]:
    """Return what is shown to be better than the trained policy, if the simulator has short episodes."""
    trainer = run.trainer
    short = trainer.simulator.hooks.short_episodes(trainer.simulator)
    if short is None:
        return []
    evaluated = trainer.judge.best.judged_by == "evaluations"
    last = TrainedPolicy(trainer.actor_params(), trainer.model.spec)
    policy = load_trained_policy(run.directory) if evaluated else last
    policy = with_untrained(policy, run.directory, trainer.simulator)
    return last_check(trainer.simulator, short, policy, trainer.settings.seed, run.plan.simulation_threads)


def _last_lines(run: Run, done: bool) -> list[str]:
    """Return how a run ended, and the command to give next."""
    trainer, budget = run.trainer, run.trainer.budget
    if not done:
        resume = f"Resume with: {trainer.settings.resume_command}"
        return [f"Stopped after iteration {trainer.iterations_done}, saved. {resume}"]
    lines = [f"Trained {counted(trainer.iteration, 'iteration')}; everything is in {run.directory}."]
    if isinstance(budget, Budget) and trainer.unfinished:
        spent = f"{format_duration(budget.seconds)} ended the run after {format_duration(budget.elapsed)}"
        lines.insert(0, f"The time budget of {spent}: {trainer.iterations_done} iterations are done.")
    if not trainer.iteration:
        return [*lines[:-1], "No iteration is done, so there is no policy to evaluate: name a longer --time-budget."]
    command = f"{this_command()} --mode evaluate --checkpoint {shell_word(str(run.directory))}"
    return [*lines, f"Compare the policy with the simulator's heuristics: {command}"]


def stop_on_interrupt(say: Say, ranks: Ranks, *signals: signal.Signals) -> StopOnInterrupt:
    """Return what turns signals into a request to stop, once all ranks are here: one means the same to each of them."""
    wait_for_all(ranks)
    return StopOnInterrupt(say, *signals, once_for=_SAME_REQUEST if ranks.size > 1 else 0.0)
