"""A run in MLflow."""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from longstride.errors import UserError, one_line
from longstride.escaping import mlflow_name
from longstride.training.run_directory.metrics_log import scalars
from longstride.training.tracking.tracking import PROJECT, TrackingError

_MOST_METRICS, _LONGEST_PARAM = 1_000, 500
"""Metrics that MLflow takes at once, and letters of a parameter in all of its versions."""

_PASSWORD = re.compile(r"//[^/\s]+@")

_ITERATION = "longstride.iteration"
"""Tag with the last iteration that the run has all of."""


def mlflow_target() -> str:
    """Return where runs go, without passwords: the server or store, and the experiment."""
    return f"{_store()} {_experiment()}"


class MlflowRun:
    """A run in an experiment, begun or continued; its step is the iteration.

    Raises:
        UserError: mlflow is not installed, or the run that was begun is gone.
        TrackingError: the server cannot be reached, or refuses the run.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any], run: str) -> None:
        mlflow = _import_mlflow()
        self._entities = mlflow.entities
        with _explained():
            self._client = mlflow.MlflowClient()
            self.run = run or self._begin(directory.resolve().name)
            found = self._client.get_run(self.run)
            self._experiment_id = found.info.experiment_id
            if found.info.lifecycle_stage == "deleted":
                raise TrackingError(
                    f"MLflow: run {self.run} was deleted; remove tracking-mlflow.json to send it again."
                )
            self._client.update_run(self.run, status="RUNNING")
        self.iteration = int(found.data.tags.get(_ITERATION, 0))
        self._changed = self._send_settings(settings, found.data.params)

    def send(self, record: Mapping[str, Any]) -> None:
        """Send the numbers of a record, and with the last ones how far the run is."""
        iteration, now = record["iteration"], int(1000 * time.time())
        metrics = [
            self._entities.Metric(mlflow_name(name), value, now, iteration) for name, value in scalars(dict(record))
        ]
        units = {mlflow_name(f"unit.{name}"): unit for name, unit in record.get("units", {}).items()}
        tags = {_ITERATION: str(iteration), **units}
        with _explained():
            for begin in range(0, len(metrics), _MOST_METRICS):
                self._client.log_batch(self.run, metrics=metrics[begin : begin + _MOST_METRICS])
            self._client.log_batch(self.run, tags=[self._entities.RunTag(*tag) for tag in tags.items()])
        self.iteration = iteration

    def send_file(self, path: Path) -> None:
        """Send a file as an artifact of the run."""
        with _explained():
            self._client.log_artifact(self.run, str(path))

    def close(self) -> list[str]:
        """Mark the run as finished."""
        with _explained(), redirect_stdout(StringIO()):  # it prints the server's address with its password
            self._client.set_terminated(self.run, "FINISHED")
        kept = f"MLflow keeps the first value of a parameter, other than {', '.join(self._changed)} now."
        return [*([kept] if self._changed else []), f"MLflow: {self._place()}"]

    def _place(self) -> str:
        """Return the page of the run, or where it is where there is no server."""
        store = _store()
        if store.startswith("http"):
            return f"{store.rstrip('/')}/#/experiments/{self._experiment_id}/runs/{self.run}"
        return f"run {self.run} in {mlflow_target()}"

    def _begin(self, name: str) -> str:
        """Begin a run and return its id."""
        experiment = self._client.get_experiment_by_name(_experiment())
        number = experiment.experiment_id if experiment else self._client.create_experiment(_experiment())
        return str(self._client.create_run(number, run_name=name).info.run_id)

    def _send_settings(self, settings: Mapping[str, Any], known: dict[str, str]) -> list[str]:
        """Send the settings that MLflow does not have; return the names of those that have changed since."""
        shown = {name: _shown(value)[:_LONGEST_PARAM] for name, value in settings.items()}
        new = [self._entities.Param(name, value) for name, value in shown.items() if name not in known]
        with _explained():
            self._client.log_batch(self.run, params=new)
        return [name.upper() for name, value in shown.items() if known.get(name, value) != value]


def _store() -> str:
    """Return the address of the server or store without passwords."""
    return _PASSWORD.sub("//", os.environ.get("MLFLOW_TRACKING_URI") or _import_mlflow().get_tracking_uri())


def _experiment() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn MLflow's errors into sentences."""
    try:
        yield
    except UserError:
        raise
    except (_import_mlflow().exceptions.MlflowException, ImportError, OSError) as error:
        raise TrackingError(f"MLflow: {_PASSWORD.sub('//', one_line(error))}.") from None


def _import_mlflow() -> Any:
    try:
        import mlflow
        import mlflow.entities
        import mlflow.exceptions
    except ImportError:
        raise UserError('Tracking in MLflow needs its package: pip install "longstride[mlflow]".') from None
    return mlflow
