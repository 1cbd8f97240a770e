"""--mode sweep: try settings, compare the best with the base settings, write sweep.json and sweep.html."""

import math
from pathlib import Path
from statistics import fmean

from rich.console import Console

from longstride.commands.sweep.held_out import NOTHING_COMPARED, HeldOut, compare_held_out
from longstride.commands.sweep.journal import is_journal
from longstride.commands.sweep.page import build_page
from longstride.commands.sweep.report import Outcome, closing_lines, result_json, trial_line, trial_tables
from longstride.commands.sweep.runs import Records, Result, parts_done, share_done
from longstride.commands.sweep.study import RUNGS, Search, best_first
from longstride.commands.sweep.sweep import BASE, JOURNAL, PAGE, RESULT, Sweep, trial_name
from longstride.errors import UserError
from longstride.report.page import write_page
from longstride.text import Say, counted, format_duration
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.metrics_log import read_metrics
from longstride.training.run_directory.ownership import remove_run


def run_sweep(sweep: Sweep, console: Console, say: Say) -> Path:
    """Make the trials that are missing and the comparison, print both, and return the path of sweep.json.

    Raises:
        UserError: the base settings fail, the directory holds something else, or Optuna is not installed.
    """
    with sweep.folder.held(say, is_known=is_journal(sweep.directory / JOURNAL)):
        search = _begin(sweep, say)
        base = _train_base(sweep, say)
        _try_settings(sweep, search, base, say)
        finalists = best_first(search.trials(), sweep.aim.lower_is_better)[: sweep.limits.finalists]
        held_out = compare_held_out(sweep, finalists, say)
    outcome = _save(sweep, search, base, held_out)
    for table in trial_tables(sweep, outcome, console.width):
        console.print(table)
    for line in closing_lines(sweep, outcome):
        say(line)
    say(f"Report: {write_page(build_page(sweep, outcome), sweep.directory / PAGE)}")
    return sweep.directory / RESULT


def _begin(sweep: Sweep, say: Say) -> Search:
    """Announce the sweep, and open its journal."""
    search = Search(sweep.directory / JOURNAL, sweep.space, sweep.aim)
    if not sweep.folder.result.exists():
        sweep.folder.write()
    for number in search.repair():
        remove_run(sweep.directory / trial_name(number))
        say(f"Trial {number} was interrupted and is repeated.")
    for dimension in sweep.space:
        say(f"{dimension.name.upper()}: {dimension.text}.")
    limit = "" if sweep.limits.minutes is None else f" in {format_duration(60 * sweep.limits.minutes)} at most"
    done = len(search.trials())
    say(f"{counted(sweep.limits.trials, 'trial')}{limit}{f', {done} of them made before' if done else ''}.")
    if sweep.aim.objectives == "score,seconds":
        say("Trials are not pruned: Optuna prunes only if there is a single objective.")
    return search


def _train_base(sweep: Sweep, say: Say) -> Result:
    """Train with the base settings, unless that was done before.

    Raises:
        UserError: that fails, so trials would too.
    """
    say(f"Training with the {BASE} ...")
    result = sweep.base.run_once()
    if result.error:
        raise UserError(f"Training with the {BASE} failed: {result.error} All of it: {sweep.base.log}.")
    return result


def _try_settings(sweep: Sweep, search: Search, base: Result, say: Say) -> None:
    """Make trials until there are enough, or the time for another one and the comparison is over."""
    while True:
        ended = search.trials()
        whole = [base.took, *(trial.took for trial in ended if trial.state == "complete" and trial.took)]
        spent = base.took + sum(trial.took for trial in ended)
        if not sweep.limits.another_trial(len(ended), spent, fmean(whole)):
            if len(ended) < sweep.limits.trials:
                say(f"No time for another trial and the comparison: {len(ended)} of {sweep.limits.trials} are made.")
            return
        _make_trial(sweep, search)
        _save(sweep, search, base)
        say(trial_line(sweep, search.trials(), base))


def _make_trial(sweep: Sweep, search: Search) -> None:
    """Make one trial, or take the score of an earlier one with the same values: it would learn the same bits."""
    earlier = search.trials()
    number, params = search.begin()
    same = next((t for t in earlier if t.params == params and t.state == "complete"), None)
    if same is not None and same.score is not None and same.seconds is not None:
        return search.complete(same.score, same.seconds, 0.0, same.number)
    training, watch = sweep.trial(number, params), _Watch(sweep, search, number)
    result = training.run(watch.stop if sweep.aim.pruning else None)
    if watch.pruned:
        return search.prune(result.took)
    watch.stop(read_metrics(training.directory)[watch.seen :])  # later trials are compared with all parts
    if result.error or result.score is None:
        search.fail(result.error, result.took)
    else:
        search.complete(result.score, result.seconds, result.took)


class _Watch:
    """Reports the running trial's parts to the search as they end."""

    def __init__(self, sweep: Sweep, search: Search, number: int) -> None:
        self._sweep, self._report = sweep, search.report
        self._directory, self._records = sweep.directory / trial_name(number), Records()
        self._told = set[int]()
        self.pruned = False

    def stop(self, new: Records) -> bool:
        """Take note of new records; return whether to give the trial up."""
        if new:
            self._records += new
            planned = values_of_a_run(RunDirectory(self._directory)).get("training_episodes")
            over = share_done(new[-1], planned) >= 1.0  # too late to save time
            for part, score in parts_done(self._records, planned, self._sweep.settings.metric, RUNGS).items():
                if part not in self._told and math.isfinite(score):
                    self._told.add(part)
                    worse = self._report(part, score)
                    self.pruned = self.pruned or (worse and not over)
        return self.pruned

    @property
    def seen(self) -> int:
        """Number of records so far."""
        return len(self._records)


def _save(sweep: Sweep, search: Search, base: Result, held_out: HeldOut | None = None) -> Outcome:
    """Write sweep.json and return what it holds."""
    used = values_of_a_run(RunDirectory(sweep.base.directory))
    importances = search.importances() if held_out else {}
    outcome = Outcome(base, used, search.trials(), importances, held_out or NOTHING_COMPARED)
    sweep.folder.write(**result_json(sweep, outcome))
    return outcome
