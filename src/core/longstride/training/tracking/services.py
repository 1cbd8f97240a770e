"""The services that show runs, by name."""

from collections.abc import Sequence
from typing import Any

from longstride.text import Say
from longstride.training.callbacks import Callbacks
from longstride.training.tracking.to_mlflow import MlflowRun, mlflow_target
from longstride.training.tracking.to_wandb import WandbRun, wandb_target
from longstride.training.tracking.tracking import OpenService, Tracking


def observer_of(callbacks: Sequence[Any], service: str, say: Say) -> Callbacks:
    """Return what sees the records of a run: callbacks of a program, and the service that shows it, if it is named."""
    shown = [tracking_by(service, say)] if service else []
    return Callbacks([*callbacks, *shown])


def tracking_by(service: str, say: Say) -> Tracking:
    """Return the callback that sends a run to ``"wandb"`` or ``"mlflow"``.

    Raises:
        UserError: the service's package is not installed.
    """
    kinds: dict[str, OpenService] = {"wandb": WandbRun, "mlflow": MlflowRun}
    target = {"wandb": wandb_target, "mlflow": mlflow_target}[service]()
    return Tracking(service, kinds[service], target, say)
