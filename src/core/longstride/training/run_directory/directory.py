"""Every path and file name of a run."""

from pathlib import Path
from typing import Literal

from longstride.errors import UserError

Which = Literal["last", "best"]
"""Kinds of checkpoints: those of the last iterations, and the best one."""

_EARLIER_VERSIONS = ("episode-*.json", "checkpoint.json")
"""Checkpoint files of earlier versions, which this one does not read."""


LOCK = "run.lock"
"""File in a run directory that the training process locks; also in the folder of a comparison."""


class RunDirectory:
    """Paths of a run; none of them has to exist."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"  # every setting of the run, and where it comes from
        self.plan = self.path / "plan.json"  # use of the machine, with reasons
        self.scenario = self.path / "scenario.json"  # scenario of a process simulator
        self.fidelity = self.path / "fidelity.json"  # event log and simulation compared, JSON
        self.fidelity_report = self.path / "fidelity.md"  # the same as Markdown
        self.refused_rows = self.path / "refused_rows.csv"  # bad rows of the event log, with reasons
        self.metrics = self.path / "metrics.jsonl"  # one JSON line an iteration
        self.tensorboard = self.path / "tensorboard"  # folder of TensorBoard's files
        self.learning_curve = self.path / "learning_curve.png"  # main metric over the iterations, a picture
        self.report = self.path / "report.html"  # the run as a page
        self.comparison = self.path / "comparison.html"  # this run and others side by side
        self.evaluation = self.path / "evaluation.json"  # result of --mode evaluate
        self.acting = self.path / "acting.json"  # whether the policy does better by draws, as an evaluation has shown
        self.whatif = self.path / "whatif.json"  # result of --mode whatif
        self.whatif_scenarios = self.path / "whatif"  # folder of the scenarios that it made of changes
        self.backtest = self.path / "backtest.json"  # result of --mode backtest
        self.backtest_report = self.path / "backtest.md"  # the same as Markdown
        self.export = self.path / "export"  # folder of --mode export
        self.messages = self.path / "messages.log"  # what could not be printed
        self.lock = self.path / LOCK  # file that the training process locks

    def __str__(self) -> str:
        return str(self.path)

    def tracking(self, service: str) -> Path:
        """Return the file that remembers the name of the run in a service."""
        return self.path / f"tracking-{service}.json"

    def kept_evaluation(self, episodes: int) -> Path:
        """Return the file of an evaluation with so many episodes, in whose place one of fewer has come."""
        return self.path / f"evaluation-{episodes}-episodes.json"

    def checkpoints(self, which: Which) -> Path:
        """Return a folder of checkpoints."""
        return self.path / "checkpoints" / which

    def holds_run(self) -> bool:
        """Return whether there is a checkpoint, intact or not, of whatever version."""
        folder = self.checkpoints("last")
        return bool(checkpoint_files(folder)) or is_of_earlier_version(folder)

    def require_free(self) -> None:
        """Check that a new run does not overwrite another one.

        Raises:
            UserError: the directory holds a run.
        """
        if self.holds_run():
            raise UserError(
                f"{self} already holds a run; add --resume to continue it, or name another --run-directory."
            )


def choose_directory(path: str, name: str, resume: bool = False) -> RunDirectory:
    """Return the directory that a user names, or else the first free one of runs/NAME, runs/NAME-2, ...

    Raises:
        UserError: the path is a file, or there is none although a run is to continue.
    """
    if resume and not path:
        raise UserError("--resume needs --run-directory DIR, the run to continue.")
    name = name.replace("/", "-")
    free = (Path("runs") / f"{name}{'' if i == 1 else f'-{i}'}" for i in range(1, 10_000))
    directory = Path(path) if path else next(folder for folder in free if not folder.exists())
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file; --run-directory needs a folder.")
    return RunDirectory(directory)


def run_directory_of(path: Path) -> RunDirectory:
    """Return the run directory of a checkpoint folder, or a run directory itself."""
    return RunDirectory(path.parents[1] if path.parent.name == "checkpoints" else path)


def checkpoint_name(iteration: int) -> str:
    """Return the name of a checkpoint's files, without their endings."""
    return f"iteration-{iteration:08d}"


def iteration_of(checkpoint: Path) -> int:
    """Return the iteration in the name of a checkpoint's JSON file."""
    return int(checkpoint.stem.rpartition("-")[2])


def checkpoint_files(folder: Path, before: int | None = None) -> list[Path]:
    """Return the JSON files of the checkpoints in a folder, newest first, or of those from before an iteration."""
    paths = (path for path in folder.glob("iteration-*.json") if path.stem.rpartition("-")[2].isdecimal())
    return sorted((p for p in paths if before is None or iteration_of(p) < before), key=iteration_of, reverse=True)


def is_of_earlier_version(folder: Path) -> bool:
    """Return whether a folder of checkpoints was written by an earlier version."""
    return any(path for pattern in _EARLIER_VERSIONS for path in folder.glob(pattern))
