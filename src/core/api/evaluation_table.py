"""The result of ``longstride.evaluate``."""

import io
from typing import Any

from rich.console import Console
from rich.table import Table

from core.api.data_frames import import_pandas
from core.commands.evaluate import comparison_sentence, evaluation_table
from core.simulators.simulator import Simulator
from core.training.display.notebook import html_of
from core.training.evaluation.compiled import Records
from core.training.evaluation.evaluate import Evaluation, summarise


class EvaluationTable:
    """Trained policy, heuristics and bounds on the same episodes, a row each.

    ``print`` shows it as text, a notebook as a table, :meth:`to_pandas` gives the numbers.

    Args:
        evaluation: finished evaluation.
        simulator: simulator that was played.

    Attributes:
        episodes: number of episodes of each policy.
        records: policy -> its episodes' records: the return and the simulator's metrics.
        rows: policy -> ``kind`` (``"policy"``, ``"heuristic"``, ``"bound"``); ``metrics``: name -> mean, low and high
            end of the 95 % interval; ``difference``: the same numbers of the main metric minus that of the best
            heuristic, episode by episode, or None.
        main_metric: metric that policies are compared by.
        best_heuristic: name of the best heuristic; None without heuristics.
        messages: sentences about episodes that ended in an unusual way.
    """

    def __init__(self, evaluation: Evaluation, simulator: Simulator) -> None:
        self._evaluation, self._simulator = evaluation, simulator
        self.episodes, self.records, self.messages = evaluation.episodes, evaluation.records, evaluation.messages
        self.main_metric = simulator.main_metric
        summary = {name: summarise(records) for name, records in self.records.items()}
        sign = 1.0 if simulator.main_metric_lower_is_better else -1.0
        means = {
            name: sign * metrics[self.main_metric]["mean"]
            for name, metrics in summary.items()
            if name in simulator.heuristics and self.main_metric in metrics
        }
        self.best_heuristic = min(means, key=lambda name: means[name]) if means else None
        self.rows: dict[str, dict[str, Any]] = {
            name: {"kind": self._kind(name), "metrics": metrics, "difference": self._difference(name)}
            for name, metrics in summary.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return what ``--mode evaluate`` writes to evaluation.json."""
        return self._evaluation.as_json()

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each policy.

        Columns: ``kind``; for each metric its mean, ``<metric>_low`` and ``<metric>_high``; ``difference``,
        ``difference_low`` and ``difference_high`` to the best heuristic. A metric of several numbers is a list.

        Raises:
            UserError: pandas is not installed.
        """
        pandas = import_pandas("table.rows")
        table = {}
        for name, row in self.rows.items():
            cells: dict[str, Any] = {"kind": row["kind"]}
            for column, value in [*row["metrics"].items(), ("difference", row["difference"])]:
                for suffix, key in (("", "mean"), ("_low", "low"), ("_high", "high")):
                    cells[column + suffix] = value[key] if value else float("nan")
            table[name] = cells
        return pandas.DataFrame.from_dict(table, orient="index").rename_axis("policy")

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=1000, force_jupyter=False).print(self._table())
        return "\n".join([*(line.rstrip() for line in text.getvalue().splitlines()), *self._sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return html_of(self._table(), self._sentences())

    def _sentences(self) -> list[str]:
        compared = [comparison_sentence(self._evaluation, self._simulator)] if self.best_heuristic else []
        return [*compared, *self.messages[:3]]

    def _table(self) -> Table:
        column = {name: _in_words(row["difference"]) for name, row in self.rows.items()}
        title = f"{self.main_metric.replace('_', ' ')} minus {self.best_heuristic}'s"
        return evaluation_table(self._evaluation, self._simulator, {title: column} if self.best_heuristic else {})

    def _kind(self, name: str) -> str:
        return (
            "heuristic"
            if name in self._simulator.heuristics
            else "bound"
            if name in self._simulator.bounds
            else "policy"
        )

    def _difference(self, name: str) -> dict[str, float] | None:
        """Return mean and 95 % interval of a policy minus the best heuristic, episode by episode."""
        if self.best_heuristic in (None, name):
            return None
        assert self.best_heuristic is not None
        pairs = zip(self.records[name], self.records[self.best_heuristic], strict=True)
        metric = self.main_metric
        differences: Records = [{metric: a[metric] - b[metric]} for a, b in pairs if metric in a and metric in b]
        return summarise(differences).get(metric)


def _in_words(difference: dict[str, float] | None) -> str:
    if difference is None:
        return "-"
    return f"{difference['mean']:+,.4g} ± {(difference['high'] - difference['low']) / 2:,.2g}"
