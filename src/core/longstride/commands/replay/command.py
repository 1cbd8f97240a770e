"""--mode replay: repeat iterations of a run from the nearest checkpoint on, and compare their hashes."""

from tempfile import TemporaryDirectory

from rich.console import Console

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.detect import detect_machine
from longstride.settings import Settings
from longstride.simulators.hooks import close_all
from longstride.text import Say
from longstride.training.assembly.components import build_trainer
from longstride.training.assembly.plan import apply_plan, plan_run, require_memory
from longstride.training.assembly.presets import complete
from longstride.training.assembly.run_settings import load_configured, settings_of_a_run
from longstride.training.assembly.simulator_trust import located_run, require_trusted_run
from longstride.training.display.progress import Progress
from longstride.training.failures import report_gpu_loss
from longstride.training.resume import resume_run
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter
from longstride.training.run_directory.directory import RunDirectory, checkpoint_files, iteration_of
from longstride.training.run_directory.metrics_log import read_metrics
from longstride.training.settings import Services
from longstride.training.trainer import Trainer


def run_replay(given: Settings, iteration: int | None, trust: bool, console: Console, say: Say) -> int:
    """Repeat an iteration (from 1) of a run, with the updates between the nearest checkpoint and it.

    Flags replace the run's own settings; nothing in the run directory changes. A Gymnasium environment cannot be put
    into the middle of an episode, so its runs are repeated from their beginning. ``trust`` lets the source of the run's
    simulator run although the user has not named it.

    Returns:
        0 if every trajectory is the same, 1 if one differs.

    Raises:
        UserError: there is no such run, or it cannot be brought back to that iteration.
        SimulatorError: the iteration fails again.
    """
    if iteration is None:
        raise UserError("--mode replay needs --iteration N, an iteration of the run in --run-directory.")
    settings = located_run(settings_of_a_run(given), given)
    config = settings.config
    if not settings.is_complete:
        missing = f"; {config.run_directory} has none." if config.run_directory else "."
        raise UserError(f"--mode replay needs --run-directory DIR, a run with its config.json{missing}")
    directory = RunDirectory(config.run_directory)
    hashes = {record["iteration"]: record.get("trajectory_sha256") for record in read_metrics(directory.path)}
    kept = [iteration_of(path) for path in checkpoint_files(directory.checkpoints("last"))]
    _require_reachable(config, iteration, max(hashes, default=0), kept)
    require_trusted_run(config, given, trust)
    settings = settings.told(say)
    with report_gpu_loss():
        trainer = _build(settings, iteration, min(kept, default=iteration) < iteration, say)
        try:
            with TemporaryDirectory() as folder, Progress(console, iteration, trainer.iteration, "") as progress:
                trainer.checkpoints = CheckpointWriter(RunDirectory(folder))
                same = [_same_iteration(trainer, hashes, progress) for _ in range(trainer.iteration, iteration)]
                trainer.checkpoints.close()
            trainer.collector.close()  # which may play the next rollout already
        finally:
            close_all(trainer.simulator)
    return 0 if all(same) else 1


def _build(settings: Settings, iteration: int, resume: bool, say: Say) -> Trainer:
    """Build the trainer of a run as it was before an iteration, or at its beginning."""
    directory = RunDirectory(settings.config.run_directory)
    loaded = load_configured(settings.config, say)
    setup, machine = complete(settings.changed({"rollout_hosts": ""}, "changed"), loaded), detect_machine()
    plan = apply_plan(plan_run(setup, machine), setup.spec)
    require_memory(setup, plan, machine)
    trainer = build_trainer(setup, plan, directory.path, Services(CheckpointWriter(directory)))
    if resume and loaded.simulator.resumable:
        resume_run(trainer, directory.path, say, before=iteration)
    trainer.collector.compile(trainer.actor_params())
    trainer.updater.compile()
    return trainer


def _require_reachable(config: Config, iteration: int, last: int, kept: list[int]) -> None:
    """Check that a run with some last iteration and some kept checkpoints can be brought back to an iteration."""
    directory = config.run_directory
    if not 1 <= iteration <= last + 1:
        raise UserError(f"--iteration is {iteration}, but the run in {directory} has {last} iterations (from 1).")
    reachable = sorted(number + 1 for number in {0, *kept} if number <= last)
    if config.time_budget and iteration not in reachable:
        raise UserError(
            f"The learning rates of the run in {directory} followed the clock (TIME_BUDGET), so only iterations right "
            f"after a checkpoint can be repeated: {', '.join(map(str, reachable))}."
        )


def _same_iteration(trainer: Trainer, hashes: dict[int, str | None], progress: Progress) -> bool:
    """Repeat the next iteration; print how it compares, and return whether it is the same or unknown."""
    record = trainer.run_iteration(progress)
    number, repeated = record["iteration"], record["trajectory_sha256"]
    steps, original = f"{record['steps']:,} steps", hashes.get(number)
    if original is None:
        progress.say(f"Iteration {number}: {steps} without a failure; metrics.jsonl has no hash to compare with.")
    elif repeated == original:
        progress.say(f"Iteration {number}: the same {steps} as in the run (sha256 {repeated[:16]}).")
    else:
        progress.say(
            f"Iteration {number}: other steps than in the run (sha256 {repeated[:16]} here, {original[:16]} in "
            "metrics.jsonl): the code, the settings, the machine or a file of the simulator is not the same."
        )
    return original is None or repeated == original
