"""``longstride.evaluate``: a trained policy beside heuristics and bounds, as a table."""

from pathlib import Path

from core.api.evaluation_table import EvaluationTable
from core.api.train import TrainingRun, console_for, load
from core.commands.evaluate import compare_policies, require_same_simulator
from core.config import Config
from core.errors import UserError
from core.simulators.loading import from_source
from core.simulators.simulator import Simulator
from core.training.build.run_settings import values_of_a_run
from core.training.evaluation.trained_policy import trained_policy
from core.training.run_directory.checkpoint import load_run


def evaluate(
    run: TrainingRun | str | Path,
    simulator: Simulator | str | None = None,
    episodes: int | None = None,
    policies: list[str] | None = None,
    *,
    seed: int = 0,
    quiet: bool = False,
) -> EvaluationTable:
    """Compare a trained policy with heuristics and bounds on the same random streams.

    Args:
        run: run, run directory or checkpoint directory.
        simulator: simulator to play, or its name; None for the one that the run was trained on.
        episodes: episodes of each policy, at least 2; None for ``evaluation_episodes`` of the run.
        policies: names of heuristics to play; None for all.
        seed: seed of the random streams; 0 plays the episodes of ``--mode evaluate``.
        quiet: whether to print nothing.

    Raises:
        UserError: the checkpoint, the simulator or a heuristic is not what it should be.
    """
    console = console_for(quiet)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    directory = run.directory if isinstance(run, TrainingRun) else Path(run)
    tensors, metadata = load_run(directory, say)
    config = Config(seed=seed, evaluation_episodes=_episodes_of(directory) if episodes is None else episodes)
    if simulator is not None:
        played = load(simulator, config).simulator
    elif isinstance(run, TrainingRun):
        played = run.loaded.simulator
    else:
        try:
            played = from_source(metadata["source"]).simulator
        except UserError as error:
            raise UserError(f"{error} Or pass the simulator: evaluate({str(run)!r}, simulator).") from None
    require_same_simulator(played, metadata, directory)
    trained = trained_policy(tensors, metadata)
    return EvaluationTable(compare_policies(config, played, trained, policies, say), played)


def _episodes_of(directory: Path) -> int:
    """Return the episodes of an evaluation that a run was set to."""
    run = directory.parents[1] if directory.parent.name == "checkpoints" else directory
    return int(values_of_a_run(run).get("evaluation_episodes", Config().evaluation_episodes))
