"""What a run directory holds, as far as it is there."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from longstride.errors import UserError
from longstride.simulators.hooks import PlayedEpisode
from longstride.simulators.simulator import Simulator
from longstride.training.evaluation.comparison import from_json
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.run_directory.directory import RunDirectory, checkpoint_files
from longstride.training.run_directory.metrics_log import whole_records
from longstride.training.run_directory.plots import Curve, curve_of, read_evaluation
from longstride.training.run_directory.read_json import FACTS, OBJECT, PLAN, SETTINGS, read_json


@dataclass(frozen=True)
class RunData:
    """A run as its directory tells of it."""

    directory: Path  # run directory
    records: list[dict[str, Any]]  # of metrics.jsonl
    settings: dict[str, Any]  # values of config.json
    sources: dict[str, str]  # where each of them comes from
    plan: dict[str, Any]  # plan.json
    checkpoint: dict[str, Any]  # JSON values of the last checkpoint
    evaluation: Evaluation | None  # evaluation.json
    evaluation_file: dict[str, Any]  # its content
    whatif: dict[str, Any] = field(default_factory=dict)  # whatif.json; empty where there is none
    simulator: Simulator | None = None  # None where it cannot be built here
    episodes: list[PlayedEpisode] = field(default_factory=list)  # episodes for the simulator's own section
    unplayed: str = "No episode could be played, so what people do is not known."  # why there are none
    notes: list[str] = field(default_factory=list)  # why something is missing
    resumed: list[dict[str, Any]] = field(default_factory=list)  # resumes of config.json that changed what is learned

    @property
    def name(self) -> str:
        """Name of the run: that of its folder."""
        return self.directory.resolve().name

    @property
    def main_metric(self) -> str:
        """Name of the metric that the run is judged by."""
        if self.simulator is not None:
            return self.simulator.main_metric
        return str(self.checkpoint.get("main_metric") or self.evaluation_file.get("main_metric") or "return")

    def unit_of(self, metric: str) -> str:
        """Return the unit of a metric; empty where it is not known."""
        if self.simulator is not None:
            return self.simulator.unit_of(metric)
        return str(self.records[-1].get("units", {}).get(metric, ""))

    @property
    def curve(self) -> Curve:
        """The learning curve."""
        return curve_of(self.records, self.main_metric, self.unit_of(self.main_metric))

    @property
    def iterations(self) -> tuple[int, int | None]:
        """Iterations that are done and, where it is known before, how many the run was to have."""
        done = int(self.records[-1]["iteration"])
        grows = bool(self.records) and "share_done" in self.records[-1]
        planned = None if grows or self.settings.get("time_budget") else self.settings.get("training_episodes")
        return done, planned

    @property
    def interrupted(self) -> bool:
        """Whether the run ended before it was done."""
        if self.records and "share_done" in self.records[-1]:
            return bool(self.records[-1]["share_done"] < 1.0) and not self.settings.get("time_budget")
        done, planned = self.iterations
        return planned is not None and done < planned


def read_run(directory: Path, simulator: Simulator | None, notes: list[str] | None = None) -> RunData:
    """Return what a run directory holds.

    Args:
        directory: run directory.
        simulator: simulator of the run; None where it cannot be built.
        notes: sentences about what is missing.

    Raises:
        UserError: the directory holds no iteration of a run.
    """
    paths, found = RunDirectory(directory), list(notes or [])
    records = whole_records(directory)
    if not records:
        raise UserError(f"{directory} has no {paths.metrics.name} with an iteration; name the directory of a run.")
    config, content = _read(paths.config, found, SETTINGS), read_evaluation(paths)
    evaluation = from_json(content) if content else None
    if content and evaluation is None:
        found.append("evaluation.json is of an earlier version; evaluate the run again.")
    last = next(iter(checkpoint_files(paths.checkpoints("last"))), None)
    return RunData(
        directory=directory,
        records=records,
        settings=config.get("values", {}),
        sources=config.get("sources", {}),
        plan=_read(paths.plan, found, PLAN),
        checkpoint=_read(last, found, FACTS) if last else {},
        evaluation=evaluation,
        evaluation_file=content,
        whatif=_read(paths.whatif, found) if paths.whatif.is_file() else {},
        simulator=simulator,
        notes=found,
        resumed=config.get("resumed", []),
    )


def _read(path: Path, notes: list[str], shape: TypeAdapter[Any] = OBJECT) -> dict[str, Any]:
    """Return the content of a JSON file; nothing, and a note, where that fails."""
    try:
        return read_json(path, shape)
    except (OSError, ValueError):
        notes.append(f"{path.name} is missing or damaged, so this page lacks what it would tell.")
        return {}
