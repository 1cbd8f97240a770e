"""``longstride.evaluate``: a trained policy beside heuristics and bounds, as a table."""

import io
from pathlib import Path
from typing import Any

from rich.table import Table

from longstride.api.checkpoint_simulator import require_same_simulator
from longstride.api.compare_policies import closing_lines, compare_policies, episodes_of, policy_on
from longstride.api.train import TrainingRun, console_for, import_pandas, load, require_named
from longstride.config import Config
from longstride.errors import UserError
from longstride.simulators.hooks import OBJECTIVE
from longstride.simulators.loading import LoadedSimulator, from_source
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import located
from longstride.terminal import make_console, say_on
from longstride.training.assembly.simulator_trust import Consent, require_trusted
from longstride.training.display.notebook import html_of
from longstride.training.evaluation.comparison import as_json, kind_of
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic, paired_values, summarise
from longstride.training.evaluation.table import evaluation_table
from longstride.training.run_directory.checkpoint import load_run, policy_folder


def evaluate(
    run: TrainingRun | str | Path,
    simulator: Any = None,
    episodes: int | None = None,
    policies: list[str] | None = None,
    *,
    seed: int = 0,
    quiet: bool = False,
    trust_simulator: bool = False,
) -> "EvaluationTable":
    """Compare a trained policy with heuristics and bounds on the same random streams.

    Args:
        run: run, run directory or checkpoint directory.
        simulator: simulator to play, or its name; None for the one that the run was trained on.
        episodes: episodes of each policy, at least 2; None for ``evaluation_episodes`` of the run.
        policies: names of heuristics to play; None for all.
        seed: seed of the random streams; 0 plays the episodes of ``--mode evaluate``.
        quiet: whether to print nothing.
        trust_simulator: whether to run the simulator's source that the run names, although you have neither named it
            nor trained on it on this machine, or although it has changed since.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    say = say_on(console_for(quiet))
    directory = run.directory if isinstance(run, TrainingRun) else Path(run)
    tensors, metadata = load_run(policy_folder(directory, say), say)
    config = Config(seed=seed, evaluation_episodes=episodes_of(directory) if episodes is None else episodes)
    if isinstance(run, TrainingRun) and simulator is None:
        played = run.loaded.simulator
    else:
        loaded = _played(directory, simulator, metadata["source"], config, trust_simulator)
        for line in loaded.remarks:
            say(line)
        played = loaded.simulator
    require_same_simulator(played, metadata, directory)
    trained = policy_on(played, tensors, metadata, directory)
    return EvaluationTable(compare_policies(config, played, trained, policies, say), played)


def _played(directory: Path, simulator: Any, source: dict[str, Any], config: Config, trust: bool) -> LoadedSimulator:
    """Return the simulator to play: the one that was passed, or that of the run.

    Raises:
        UserError: its source may not run, or it cannot be built.
    """
    if isinstance(simulator, str):
        require_named(simulator, config, source, directory, trust)
    if simulator is not None:
        return load(simulator, config).with_objective(str(source.get(OBJECTIVE, ""))).compared_with(source)
    try:
        found, note = located(source)
        require_trusted(found, directory, Consent(trusted=trust, from_python=True))
        return from_source(found).compared_with(source, note)
    except UserError as error:
        raise UserError(f"{error} Or pass the simulator: evaluate({str(directory)!r}, simulator).") from None


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
        self.main_metric, self.best_heuristic = simulator.main_metric, best_heuristic(self.records, simulator)
        self.rows: dict[str, dict[str, Any]] = {
            name: {"kind": kind_of(name, simulator), "metrics": metrics, "difference": self._difference(name)}
            for name, metrics in self.as_json()["policies"].items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return what ``--mode evaluate`` writes to evaluation.json."""
        return as_json(self._evaluation, self._simulator)

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
        make_console(file=text, width=1000, force_jupyter=False, force_terminal=False).print(self._table())
        return "\n".join([*(line.rstrip() for line in text.getvalue().splitlines()), *self._sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return html_of(self._table(), self._sentences())

    def _sentences(self) -> list[str]:
        return closing_lines(self._evaluation, self._simulator, self.best_heuristic is not None)

    def _table(self) -> Table:
        return evaluation_table(self._evaluation, self._simulator)

    def _difference(self, name: str) -> dict[str, float] | None:
        """Return mean and 95 % interval of a policy minus the best heuristic, episode by episode."""
        if self.best_heuristic is None or name == self.best_heuristic:
            return None
        pairs = paired_values(self.records[name], self.records[self.best_heuristic], self.main_metric)
        return summarise([{"difference": a - b} for a, b in zip(*pairs, strict=True)]).get("difference")
