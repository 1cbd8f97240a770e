"""The folder of a search among policies or teams: its settings, time, scenario and result, which a later call knows."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from longstride.api.compare_policies import require_heuristics, split_names
from longstride.commands.comparison_folder import ComparisonFolder
from longstride.config import PROCESS_OPTIONS
from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.process.fidelity.base import Base, base_sentences, compare_base
from longstride.process.front.content import Front, as_json, cells
from longstride.process.front.page import build_page
from longstride.process.load import chosen_tolerance, with_tolerance
from longstride.process.promise import promise_sentences
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Sampling
from longstride.report.page import write_page
from longstride.settings import Settings
from longstride.terminal import print_table
from longstride.text import Say
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.read_json import object_in

_NOT_COMPARED = {*PROCESS_OPTIONS, "simulator", "simulator_options", "objective", "run_directory"} | {
    *("evaluation_episodes", "simulation_threads", "update_threads", "episode_time_limit"),
}
"""Settings that another call of the same search may change, or that the scenario holds."""


@dataclass(frozen=True)
class SearchFolder:
    """The folder of a search.

    Attributes:
        mode: name of the mode.
        path: the folder.
        folder: the folder against other searches and other processes.
    """

    mode: str
    path: Path
    folder: ComparisonFolder

    @property
    def scenario(self) -> Path:
        """The scenario that the search is about."""
        return self.path / "scenario.json"

    @property
    def page(self) -> Path:
        """The page with the result."""
        return self.path / f"{self.mode}.html"

    def remembered(self, name: str) -> Any:
        """Return a value that an earlier call has written into the result; None if there is none."""
        return object_in(self.folder.result).get(name)

    def write_scenario(self, scenario: Scenario) -> None:
        """Write the scenario."""
        write_json(self.scenario, scenario_content(scenario))


def search_folder(mode: str, settings: Settings, scenario: Scenario, asked: dict[str, Any]) -> SearchFolder:
    """Return the folder of a search on a scenario; ``asked`` are JSON values of flags that make it another search."""
    config = settings.config
    path = Path(config.run_directory or f"runs/{mode}")
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; --run-directory needs a folder.")
    digest = hashlib.sha256(scenario.model_dump_json().encode()).hexdigest()
    values = config.model_dump(mode="json", exclude=_NOT_COMPARED)
    identity = {"mode": mode, "scenario_sha256": digest, "asked": asked, "settings": values}
    result = path / f"{mode}.json"
    other, kept = "another search", "trainings"
    folder = ComparisonFolder(
        path, "comparison", result, identity, lambda content: [content[name] for name in identity], other, kept
    )
    return SearchFolder(mode, path, folder)


def seconds_of(minutes: float | None) -> float | None:
    """Return the seconds of --minutes.

    Raises:
        UserError: it is not above 0.
    """
    if minutes is None:
        return None
    if not 0.0 < minutes < float("inf"):
        raise UserError(f"--minutes is {minutes:g}; expected more than 0.")
    return 60.0 * minutes


def sampling_of(settings: Settings) -> Sampling:
    """Return the episodes in which points are compared."""
    config = settings.config
    return Sampling(config.evaluation_episodes, config.seed, config.simulation_threads or detect_cores().usable)


def rules_of(simulator: ProcessSimulator, policies: str | None) -> list[str]:
    """Return the names of the rules to play: those in --policy, else all.

    Raises:
        UserError: the process has no such rule.
    """
    names = list(simulator.heuristics) if policies is None else split_names(policies)
    require_heuristics(names, simulator, with_policy=False)
    return names


def base_of(scenario: Scenario, settings: Settings) -> Base | None:
    """Return how the simulation compares with the log that a scenario was mined from; None without one."""
    return compare_base(ProcessSimulator(with_tolerance(scenario, chosen_tolerance(settings))))


def finish(
    search: SearchFolder,
    front: Front,
    base: Base | None,
    said: Sequence[str],
    commands: Sequence[str],
    console: Console,
    say: Say,
    **more: Any,
) -> None:
    """Print the table and the sentences, and write the result and its page."""
    scenario = front.simulator.scenario
    kept = promise_sentences(scenario, {point.name: point.records for point in front.points}) if front.judged else []
    words = [*said, *kept, *base_sentences(base, scenario)]
    search.folder.write(**more, **as_json(front), sentences=words)
    headers, rows = cells(front)
    print_table(f"{front.episodes} episodes, mean and 95 % interval", headers, rows, console)
    for line in words:
        say(line)
    for command in commands:
        say(f"  {command}")
    title = f"{search.mode.capitalize()} of {scenario.name}"
    page = build_page(title, f"{len(front.points)} points, less is better", front, words, commands)
    say(f"Report: {write_page(page, search.page)}. Numbers: {search.folder.result}.")
