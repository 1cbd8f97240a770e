"""A run in Weights & Biases."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longstride.errors import UserError, one_line
from longstride.escaping import shell_word
from longstride.training.run_directory.metrics_log import scalars
from longstride.training.tracking.tracking import PROJECT, TrackingError


def wandb_target() -> str:
    """Return where runs go: the project, and its owner where one is named."""
    names = os.environ.get("WANDB_ENTITY", ""), os.environ.get("WANDB_PROJECT") or PROJECT
    return "/".join(filter(None, names))


class WandbRun:
    """A run in a project, begun or continued; its step is the iteration.

    Raises:
        UserError: wandb is not installed.
        TrackingError: there is no account, or no network.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any], run: str) -> None:
        wandb = self._wandb = _import_wandb()
        entity, _, project = wandb_target().rpartition("/")
        self.run, self._units = run or secrets.token_hex(4), dict[str, str]()
        with _explained("; or set WANDB_MODE=offline and upload later"):
            quiet = wandb.Settings(console="off", silent=True, x_disable_stats=True)
            self._run = wandb.init(
                entity=entity or None,
                project=project,
                id=self.run,
                name=directory.resolve().name,
                resume="allow",
                dir=os.environ.get("WANDB_DIR") or str(directory),
                config=dict(settings),
                allow_val_change=True,
                settings=quiet,
            )
        if self._run.disabled:
            raise TrackingError("W&B: WANDB_MODE says that nothing is sent.")
        # Online the service says how far it is; a run that is written for later starts its steps at 0 each time.
        self.iteration = max(0, self._run.starting_step - 1) if self._run.resumed else 0

    def send(self, record: Mapping[str, Any]) -> None:
        """Send the numbers of a record; the program of W&B beside this one keeps them until they are through."""
        with _explained():
            if (units := self._units | record.get("units", {})) != self._units:
                self._units = units
                self._run.config.update({"units": units}, allow_val_change=True)
            self._run.log(dict(scalars(dict(record))), step=record["iteration"])
        self.iteration = record["iteration"]

    def send_file(self, path: Path) -> None:
        """Send a file as an artifact of the run."""
        with _explained():
            artifact = self._wandb.Artifact(f"{self.run}-{path.stem}", type="report")
            artifact.add_file(str(path))
            self._run.log_artifact(artifact)

    def close(self) -> list[str]:
        """Wait until everything is uploaded, or on the disk."""
        folder = Path(self._run.settings.sync_dir)
        line = f"Upload with: wandb sync {shell_word(str(folder))}" if self._run.offline else f"W&B: {self._run.url}"
        with _explained():
            self._run.finish()
        return [line]


@contextmanager
def _explained(otherwise: str = "") -> Iterator[None]:
    """Turn W&B's errors, which have no class in common, into sentences."""
    try:
        yield
    except Exception as error:
        raise TrackingError(f"W&B: {one_line(error)}{otherwise}.") from None


def _import_wandb() -> Any:
    try:
        import wandb
    except ImportError:
        raise UserError('Tracking in W&B needs its package: pip install "longstride[wandb]".') from None
    return wandb
