"""Counts of all workers in shared memory, and their exposition for Prometheus.

The multi-process mode of prometheus_client writes files, which a killed service would leave behind.
"""

import mmap
import time
from bisect import bisect_left
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from longstride.version import __version__

ROUTES = ("/recommend", "/health", "/ready", "/metrics", "other")
STATUSES = (200, 400, 401, 404, 405, 408, 413, 422, 431, 499, 500, 503, 0)
"""Statuses with their own counters; 499 for clients that left, 0 for other statuses."""

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
_GAUGES = ("beat", "connections", "log_lines_lost", "worker_restarts", "reloads", "reload_failures", "seconds")
"""Further numbers of a row; ``beat`` is the monotonic time at which a worker was last alive."""

_PLACES = {name: i for i, name in enumerate(_GAUGES)}
_REQUESTS = len(_GAUGES)
_HISTOGRAM = _REQUESTS + len(ROUTES) * len(STATUSES)
_WIDTH = _HISTOGRAM + len(_BUCKETS)


class Counts:
    """Numbers in memory shared by the processes of a service; each process writes its own row, so no lock is needed.

    Args:
        rows: largest number of processes.
    """

    def __init__(self, rows: int = 1) -> None:
        memory = mmap.mmap(-1, rows * _WIDTH * 8)
        self._all = np.frombuffer(memory, np.float64).reshape(rows, _WIDTH)
        self.use_row(0)

    def use_row(self, row: int) -> None:
        """Let this process write a row; its counts continue those of the previous process."""
        self._own = self._all[row]

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count an answer, and its seconds if it is a recommendation."""
        r = ROUTES.index(route) if route in ROUTES else len(ROUTES) - 1
        s = STATUSES.index(status) if status in STATUSES else len(STATUSES) - 1
        self._own[_REQUESTS + r * len(STATUSES) + s] += 1.0
        if r == 0:
            self._own[_HISTOGRAM + bisect_left(_BUCKETS, seconds)] += 1.0
            self.add("seconds", seconds)

    def add(self, name: str, value: float = 1.0) -> None:
        """Add to one of the other numbers."""
        self._own[_PLACES[name]] += value

    def put(self, name: str, value: float) -> None:
        """Replace one of the other numbers."""
        self._own[_PLACES[name]] = value

    def of_row(self, row: int, name: str) -> float:
        """Return a number of another process."""
        return float(self._all[row, _PLACES[name]])

    def clear(self, row: int) -> None:
        """Reset a process's sign of life and connections; its counts stay."""
        self._all[row, _PLACES["beat"]] = self._all[row, _PLACES["connections"]] = 0.0

    def total(self, name: str) -> float:
        """Return the sum of a number over all processes."""
        return float(self._all[:, _PLACES[name]].sum())

    def answered(self) -> int:
        """Return the number of recommendations."""
        return int(self._all[:, _REQUESTS].sum())

    def text(self, about: dict[str, Any]) -> bytes:
        """Return all numbers in the text format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(_Page(self._all.sum(axis=0), about))
        return generate_latest(registry)


class _Page:
    """Metrics of one moment, as a collector of prometheus_client."""

    def __init__(self, sums: np.ndarray, about: dict[str, Any]) -> None:
        self._sums, self._about = sums, about

    def collect(self) -> list[Metric]:
        """Return the metrics."""
        return [self._requests(), self._seconds(), *self._numbers(), *self._policy()]

    def _requests(self) -> Metric:
        family = CounterMetricFamily("longstride_requests", "Answers.", labels=["route", "status"])
        table = self._sums[_REQUESTS:_HISTOGRAM].reshape(len(ROUTES), len(STATUSES))
        for r, s in np.argwhere(table > 0).tolist():
            family.add_metric([ROUTES[r], str(STATUSES[s] or "other")], table[r, s])
        return family

    def _seconds(self) -> Metric:
        family = HistogramMetricFamily("longstride_recommend_seconds", "Seconds of POST /recommend, its body included.")
        counts = np.cumsum(self._sums[_HISTOGRAM:]).tolist()
        names = ["+Inf" if bound == float("inf") else str(bound) for bound in _BUCKETS]
        family.add_metric([], list(zip(names, counts, strict=True)), self._number("seconds"))
        return family

    def _numbers(self) -> list[Metric]:
        descriptions = {
            "worker_restarts": "Workers that ended unexpectedly and were started again.",
            "reloads": "Times that a checkpoint or tokens were loaded while serving.",
            "reload_failures": "Times that loading failed, so that the previous policy stayed.",
            "log_lines_lost": "Lines of the access log that could not be written.",
        }
        counters = [CounterMetricFamily(f"longstride_{n}", text, self._number(n)) for n, text in descriptions.items()]
        open_now = GaugeMetricFamily("longstride_connections", "Open connections.", self._number("connections"))
        return [*counters, open_now]

    def _policy(self) -> list[Metric]:
        names = ("scenario", "policy", "iteration", "policy_sha256")
        labels = {name: str(self._about[name]) for name in names if name in self._about} | {"version": __version__}
        info = GaugeMetricFamily("longstride_policy_info", "The policy that answers.", labels=list(labels))
        info.add_metric(list(labels.values()), 1.0)
        age = time.time() - self._about.get("saved", time.time())
        return [info, GaugeMetricFamily("longstride_checkpoint_age_seconds", "Age of the checkpoint.", age)]

    def _number(self, name: str) -> float:
        return float(self._sums[_PLACES[name]])
