"""--mode replay: rounds of a run once more, from the nearest checkpoint on, compared by their hashes."""

from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from core.config import Config
from core.errors import UserError
from core.hardware.detect import detect_machine
from core.text import Say
from core.training.build.components import build_model, build_trainer
from core.training.build.plan import apply_plan, plan_run, require_memory
from core.training.build.run_settings import CONFIG_FILE, load_configured, settings_of_a_run
from core.training.display.progress import Progress
from core.training.resume import resume_run
from core.training.run_directory.checkpoint import kept_before
from core.training.run_directory.checkpoint_writer import CheckpointWriter
from core.training.run_directory.metrics_log import read_metrics
from core.training.trainer import Trainer


def run_replay(config: Config, sources: dict[str, str], episode: int, console: Console, say: Say) -> bool:
    """Play a training episode of a run again, with the updates that lie between the nearest checkpoint and it.

    Nothing in the run directory changes. An environment of Gymnasium cannot be put in the middle of an episode: its
    runs are played from their beginning.

    Args:
        config: of this command.
        sources: where its values come from; flags take the place of the run's own settings.
        episode: from 1.
        console: for the progress.
        say: prints a line.

    Returns:
        Whether every trajectory is the same as then.

    Raises:
        UserError: there is no such run, or it cannot be brought back to that episode.
        SimulatorError: the episode fails, as it did then.
    """
    config, line = settings_of_a_run(config, sources)
    directory = Path(config.run_directory)
    if not line:
        raise UserError(
            f"--mode replay needs --run-directory DIR, a run with its {CONFIG_FILE}"
            + (f"; {directory} has none." if config.run_directory else ".")
        )
    known = {record["episode"]: record.get("trajectory_sha256") for record in read_metrics(directory)}
    _require_reachable(config, directory, episode, max(known, default=0))
    say(line)
    loaded = load_configured(config)
    machine = detect_machine()
    plan = apply_plan(plan_run(config, loaded.simulator, machine))
    require_memory(config, loaded.simulator, plan, machine)
    model = build_model(config, loaded.simulator, plan.device == "cuda")
    trainer = build_trainer(config, plan, model, loaded, directory, None)
    if kept_before(directory, episode) and loaded.simulator.resumable:
        resume_run(trainer, directory, say, before=episode)
    trainer.collector.compile(trainer.actor_params())
    trainer.updater.compile()
    with TemporaryDirectory() as elsewhere, Progress(console, episode, trainer.episode, "") as progress:
        trainer.checkpoints = CheckpointWriter(Path(elsewhere))
        same = [_same_round(trainer, known, progress) for _ in range(trainer.episode, episode)]
        trainer.checkpoints.close()
    return all(same)


def _require_reachable(config: Config, directory: Path, episode: int, last: int) -> None:
    """Check that a run can be brought back to an episode.

    Raises:
        UserError: it never came to it, or nobody can know the learning rates on the way.
    """
    if not 1 <= episode <= last + 1:
        raise UserError(f"--episode is {episode}, but the run in {directory} has {last} training episodes (from 1).")
    kept = [int(path.stem.rpartition("-")[2]) for path in kept_before(directory, episode)]
    if config.time_budget and episode != 1 and episode - 1 not in kept:
        raise UserError(
            f"The learning rates of the run in {directory} followed the clock (TIME_BUDGET), so only what comes right "
            f"after a checkpoint can be played again: {_episodes_after(directory, last)}."
        )


def _episodes_after(directory: Path, last: int) -> str:
    kept = {int(path.stem.rpartition("-")[2]) for path in kept_before(directory, last + 1)}
    return "episode " + ", ".join(str(number + 1) for number in sorted({0, *kept}))


def _same_round(trainer: Trainer, known: dict[int, str | None], progress: Progress) -> bool:
    """Play and update once; say how it compares, and return whether it is the same or unknown."""
    record = trainer.run_iteration(progress)
    number, now = record["episode"], record["trajectory_sha256"]
    if (then := known.get(number)) is None:
        progress.say(f"Episode {number}: {record['steps']:,} decisions without a failure; metrics.jsonl knows none.")
    elif now == then:
        progress.say(f"Episode {number}: the same {record['steps']:,} decisions as then (sha256 {now[:16]}).")
    else:
        progress.say(
            f"Episode {number}: other decisions than then (sha256 {now[:16]} now, {then[:16]} in metrics.jsonl): the "
            "code, the settings, the machine or something that the simulator depends on is not the same."
        )
    return then is None or now == then
