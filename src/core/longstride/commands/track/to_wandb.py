"""A run in Weights & Biases."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longstride.commands.track.tracker import PROJECT, Records, RunFacts, Sent, TrackingError
from longstride.errors import UserError, one_line
from longstride.escaping import shell_word
from longstride.training.run_directory.metrics_log import scalars


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

    def __init__(self, facts: RunFacts, sent: Sent) -> None:
        wandb = self._wandb = _import_wandb()
        self.target = wandb_target()
        entity, _, project = self.target.rpartition("/")
        self.run = sent.run or secrets.token_hex(4)
        with _explained("; or set WANDB_MODE=offline and upload later"):
            # The run's machine is not this one.
            settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
            self._run = wandb.init(
                entity=entity or None,
                project=project,
                id=self.run,
                name=facts.name,
                resume="allow",
                dir=os.environ.get("WANDB_DIR") or str(facts.directory),
                config={**facts.settings, "units": facts.units},
                allow_val_change=True,
                settings=settings,
            )
        if self._run.disabled:
            raise TrackingError("W&B: WANDB_MODE says that nothing is sent.")
        # Online the service says how far it is; a run that is written for later starts its steps at 0 each time.
        self.iteration = max(0, self._run.starting_step - 1) if self._run.resumed else sent.iteration

    def send(self, records: Records) -> None:
        """Send the numbers of records; the program of W&B beside this one keeps them until they are through."""
        for record in records:
            with _explained():
                self._run.log(dict(scalars(record)), step=record["iteration"])
            self.iteration = record["iteration"]

    def send_file(self, path: Path) -> None:
        """Send a file as an artifact of the run."""
        with _explained():
            artifact = self._wandb.Artifact(f"{self.run}-{path.stem}", type="report")
            artifact.add_file(str(path))
            self._run.log_artifact(artifact)

    def close(self, ended: bool) -> list[str]:
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
        raise UserError('--to wandb needs W&B\'s package: pip install "longstride[wandb]".') from None
    return wandb
