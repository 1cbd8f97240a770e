"""The error that the size of the log adds to each change, where the log of the unchanged process is at hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from longstride.config import load_values
from longstride.errors import UserError
from longstride.process.event_logs.event_log import EventLog
from longstride.process.load import read_classified_log
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.options import LOG_SETTINGS, options_of
from longstride.process.read_aims import with_batch_start
from longstride.process.resamples.play import Resampling, play_resamples, why_not
from longstride.process.scenario.at_once import with_slots
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import scenario_content
from longstride.process.whatif.compare import Played, Sampling
from longstride.settings import Settings
from longstride.text import Say
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.run_directory.directory import run_directory_of

RESAMPLES = 20
"""Resamples without --resamples. With 20, Student's t is 7 % wider than the normal quantile; with 40, 3 %."""

_EPISODES = 20
"""Episodes of a resample and of its change, which take a tenth of the time that its mining takes."""

_EPISODES_ALONE = "The intervals cover only the sampling error of the episodes, not that of the log"


class Mined(NamedTuple):
    """The log of the unchanged process, and how its arrivals were mined."""

    log: EventLog
    arrivals: str


def log_of_run(settings: Settings, checkpoint: Path, scenario: Scenario, say: Say) -> Mined | None:
    """Return the log of --event-log, from which the scenario of a run was mined; None if the flag names none.

    It is read by the settings of the run, except for those that flags name. A path that only a run directory names is
    not read, because a run directory may come from anybody.

    Raises:
        UserError: the log cannot be read, or the scenario was mined from another one.
    """
    if not settings.is_flag("event_log"):
        return None
    directory = run_directory_of(checkpoint)
    values = values_of_a_run(directory)
    own = {name: values[name] for name in LOG_SETTINGS if name in values and not settings.is_flag(name)}
    config = load_values({**settings.flags(), **own}, str(directory.config))
    path = Path(config.event_log)
    say(f"Reading and mining {path.name} again.")
    log = read_classified_log(options_of(config))
    mined = with_slots(mine_scenario(log, name=scenario.name, arrivals=config.log_arrivals).scenario)
    mine = scenario.model_copy(update={"logged": None})
    if scenario_content(mined) != scenario_content(with_batch_start(mine, "ready") if mine.batches else mine):
        raise UserError(
            f"--event-log {path}: the process of {checkpoint} was mined from another log, by other settings or by "
            "another version; leave the flag out."
        )
    return Mined(log, config.log_arrivals)


def with_log_errors(
    played: Sequence[Played], mined: Mined | None, resamples: int, sampling: Sampling, say: Say
) -> list[Played]:
    """Return scenarios with the error that the size of the log adds to each change, and say where it is not known."""
    changes = tuple(of.variant.name for of in played if of.variant.changes)
    if not resamples or len(played) < 2 or (mined is None and played[0].variant.scenario.logged is None):
        return list(played)
    if mined is None:
        say(f"{_EPISODES_ALONE}, which is not available (name it with --event-log FILE).")
        return list(played)
    if reason := why_not(mined.log):
        say(f"{_EPISODES_ALONE}: {reason}.")
        return list(played)
    scenario = played[0].variant.scenario
    resampling = Resampling(mined.log, scenario, mined.arrivals, changes, resamples, _EPISODES, sampling.seed)
    errors = play_resamples(resampling, sampling.threads, say) if changes else {}
    unknown = [of.variant.name for of in played[1:] if of.variant.name not in errors]
    if unknown:
        say(f"{_EPISODES_ALONE}, for {', '.join(unknown)}: this change cannot be made in the resampled logs.")
    return [replace(of, log_error=errors.get(of.variant.name)) for of in played]
