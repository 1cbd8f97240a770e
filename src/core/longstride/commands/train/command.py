"""--mode train: train a policy and leave a run directory behind."""

import time
from functools import partial
from pathlib import Path

from rich.console import Console

from longstride.api.interrupts import ending_signals
from longstride.api.report import report_at_the_end
from longstride.api.training import Start, TrainOptions, open_training
from longstride.errors import this_command
from longstride.escaping import shell_word
from longstride.learning.distributed.ranks import Ranks
from longstride.settings import Settings
from longstride.text import Say, counted, format_duration
from longstride.training.assembly.last_check import SHORT_RUN, last_check, with_short_episodes, with_untrained
from longstride.training.assembly.resumed_settings import resumed_settings
from longstride.training.assembly.run import Run
from longstride.training.assembly.simulator_trust import located_run, require_trusted_run
from longstride.training.evaluation.acting import acting_sentence, compare_draws, keep_verdict
from longstride.training.evaluation.trained_policy import TrainedPolicy, load_trained_policy
from longstride.training.run_directory.checkpoint import checkpoint_folder
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.lock import is_locked
from longstride.training.time_budget import Budget, iterations_done

EXIT_INTERRUPTED = 130

_OF_A_RUN = 20
"""Steps of a run for one step of each check at its end."""


def run_train(settings: Settings, options: TrainOptions, console: Console, say: Say) -> int:
    """Train, and return the exit code: 130 where somebody asked to stop."""
    with open_training(settings, options, partial(_begin, settings, options), say) as training:
        run, say = training.run, training.say
        if not run.trainer.unfinished:
            say("Nothing is left to train: name a larger --training-episodes to train on.")
        begin = time.monotonic()
        done = training.train(console, *ending_signals())
        if training.is_first:
            for line in _checked(run) if done and time.monotonic() - begin >= SHORT_RUN else []:
                say(line)
            if options.report and run.trainer.iteration:
                report_at_the_end(run.directory, say, run.trainer.simulator)
            for line in _last_lines(run, done):
                say(line)
    return 0 if done else EXIT_INTERRUPTED


def _begin(given: Settings, options: TrainOptions, resume: bool, ranks: Ranks, say: Say) -> Start:
    """Return the given settings, or those of the run that continues.

    Raises:
        UserError: there is no checkpoint, the settings cannot be those of the run, or its simulator may not run.
    """
    if not resume:
        return Start(given)
    resumed = ranks.from_first(lambda: _settings_to_resume(given, options))
    require_trusted_run(resumed.config, given, options.trust)
    return Start(resumed.told(say), is_named=given.is_flag("simulator"))


def _settings_to_resume(given: Settings, options: TrainOptions) -> Settings:
    directory = given.config.run_directory
    if directory and not is_locked(Path(directory)):  # who trains there is named later
        checkpoint_folder(Path(directory))
    return located_run(resumed_settings(given, str(options.file or "hyperparameters.py")), given)


def _checked(run: Run) -> list[str]:
    """Return what is shown to be better than the trained policy or its likeliest actions, in some episodes."""
    trainer = run.trainer
    evaluated = trainer.best_tracker.best.judged_by == "evaluations"
    last = TrainedPolicy(trainer.actor_params(), trainer.model.spec)
    policy = load_trained_policy(run.directory) if evaluated else last
    return [*_checked_draws(run, policy), *_checked_others(run, policy)]


def _checked_draws(run: Run, policy: TrainedPolicy) -> list[str]:
    """Return whether drawn actions are better or worse than the likeliest ones, which the run remembers."""
    simulator, seed = run.trainer.simulator, run.trainer.settings.seed
    if not simulator.compiled or run.trainer.best_tracker.chosen is not None:
        return []
    steps = run.trainer.best_tracker.trained // _OF_A_RUN
    verdict = compare_draws(simulator, policy, seed, run.plan.simulation_threads, steps)
    keep_verdict(RunDirectory(run.directory), verdict, policy.actor_params)
    return list(filter(None, [acting_sentence(verdict)]))


def _checked_others(run: Run, policy: TrainedPolicy) -> list[str]:
    """Return what is shown to be better than the trained policy in short episodes."""
    trainer, choosing = run.trainer, ", or with --evaluate-every 10: evaluations then choose the policy of the run"
    short = with_short_episodes(trainer.simulator, trainer.best_tracker.trained // _OF_A_RUN)
    if short is None:
        return []
    policy = with_untrained(policy, run.directory, trainer.simulator)
    begin = "Follow the diagnosis of the run, or train" if trainer.advice.at_the_end() else "Train"
    remedy = f"{begin} longer{choosing if trainer.best_tracker.best.judged_by == 'iterations' else ''}."
    seed, threads = trainer.settings.seed, run.plan.simulation_threads
    return last_check(trainer.simulator, short, policy, seed, threads, remedy)


def _last_lines(run: Run, done: bool) -> list[str]:
    """Return how a run ended, and the command to give next."""
    trainer, budget = run.trainer, run.trainer.budget
    finished = iterations_done(trainer.iteration, trainer.settings.iterations)
    if not done:
        resume = f"Resume with: {trainer.settings.resume_command}"
        return [f"Stopped after iteration {finished}, saved. {resume}"]
    lines = [f"Trained {counted(trainer.iteration, 'iteration')}; everything is in {run.directory}."]
    if isinstance(budget, Budget) and trainer.unfinished:
        spent = f"{format_duration(budget.seconds)} ended the run after {format_duration(budget.elapsed)}"
        lines.insert(0, f"The time budget of {spent}: {finished} iterations are done.")
    if not trainer.iteration:
        return [*lines[:-1], "No iteration is done, so there is no policy to evaluate: name a longer --time-budget."]
    command = f"{this_command()} --mode evaluate --checkpoint {shell_word(str(run.directory))}"
    has_rules = trainer.simulator.heuristics
    purpose = "Compare the policy with the simulator's heuristics" if has_rules else "Evaluate the policy"
    return [*lines, f"{purpose}: {command}"]
