"""A Config becomes a run: simulator, plan, model, collector, updater, trainer, run directory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from core.config import Config
from core.hardware.detect import detect_machine, free_and_total_bytes
from core.hardware.planning.plan import Plan
from core.jit_cache.cache import CACHE_STATS
from core.simulators.check import check_simulator
from core.simulators.gym.adapter import GymnasiumSimulator
from core.simulators.loading import PROCESS, LoadedSimulator
from core.training.build.components import build_model, build_trainer
from core.training.build.plan import announce, apply_plan, peak_line, plan_run, require_memory, write_plan
from core.training.build.presets import with_preset
from core.training.build.rollout_size import decisions_per_update, rollout_in_words
from core.training.build.run_settings import CONFIG_FILE, load_configured
from core.training.display.messages import kernel_lines, memory_lines
from core.training.display.progress import Progress
from core.training.display.utilization import build_utilization_tracker
from core.training.failures import report_gpu_loss
from core.training.resume import changed_settings, refuse_to_overwrite, resume_run, run_directory
from core.training.run_directory.checkpoint_writer import WriteRetry
from core.training.run_directory.files import write_json
from core.training.run_directory.lock import RunLock
from core.training.run_directory.metrics_log import MetricsLog
from core.training.run_directory.plots import plot_learning_curve
from core.training.time_budget import NO_LIMIT, Budget, budget_of, with_budget
from core.training.trainer import Trainer

Say = Callable[[str], None]


@dataclass
class Run:
    """A run that is ready to train.

    Attributes:
        directory: of the run.
        trainer: of the run.
        plan: how it uses the machine.
        lock: of the directory, until the run has trained.
    """

    directory: Path
    trainer: Trainer
    plan: Plan
    lock: RunLock

    def train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        """Train; return whether episodes or time budget are done (False: somebody asked to stop).

        Raises:
            NotSavedError: not all of it could be written.
            GpuLostError: the GPU failed; what was saved before is on the disk.
        """
        try:
            with report_gpu_loss(self.directory, lambda: self.trainer.checkpoints.saved_episode):
                return self._train(console, should_stop)
        finally:
            self.lock.release()

    def _train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        trainer, saving = self.trainer, self.trainer.checkpoints.saving
        log = MetricsLog(self.directory, trainer.episode, saving)
        episodes = trainer.settings.episodes if trainer.settings.episodes != NO_LIMIT else None
        progress = Progress(console, episodes, trainer.episode, trainer.simulator.main_metric)
        with progress:
            if log.note:
                progress.say(log.note)
            try:
                with trainer.instruments.monitor:
                    done = trainer.run(log, progress, should_stop)
            finally:
                trainer.checkpoints.close()
                log.close()
                for line in saving.lines():
                    progress.say(line)
            for line in self._last_lines():
                progress.say(line)
        saving.require_all(self.directory, trainer.checkpoints.saved_episode)
        return done

    def _last_lines(self) -> list[str]:
        """Return what is said of a run that has ended, beside how it ended."""
        instruments = self.trainer.instruments
        lines = [plot_learning_curve(self.directory, self.trainer.simulator.main_metric)]
        if self.plan.device == "cuda":
            free, total = free_and_total_bytes()
            lines += [*memory_lines(self.plan.device_name, total, free), *instruments.phase_lines()]
        return [*lines, *filter(None, (instruments.simulation_line(), instruments.efficiency_line()))]


def build_run(config: Config, sources: dict[str, str], resume: bool, say: Say) -> Run:
    """Build everything, write config.json and plan.json, and say what was decided.

    Raises:
        UserError: anything about the input, the run directory or the checkpoint is not right.
    """
    budget = budget_of(config)  # the time of loading and compiling is part of it
    loaded = load_configured(config)
    directory = run_directory(config, resume, loaded)
    lock = RunLock(directory)
    try:
        with report_gpu_loss():
            return _build_locked(config, sources, resume, say, loaded, budget, lock)
    except BaseException:
        lock.release(abandon=True)
        raise


def _build_locked(
    config: Config,
    sources: dict[str, str],
    resume: bool,
    say: Say,
    loaded: LoadedSimulator,
    budget: Budget | None,
    lock: RunLock,
) -> Run:
    """Build a run in a directory that is this process's own."""
    directory, simulator = lock.directory, loaded.simulator
    if not resume:
        refuse_to_overwrite(directory)
    if lock.note:
        say(lock.note)
    for note in loaded.notes:
        say(note)
    if config.simulator != PROCESS and not isinstance(simulator, GymnasiumSimulator):
        for hint in check_simulator(simulator):
            say(f"Hint: {hint}")
    config, sources, notes = with_preset(config, sources, decisions_per_update(config, simulator))
    config, sources, more = with_budget(config, sources)
    machine = detect_machine()
    plan = apply_plan(plan_run(config, simulator, machine))
    for line in [*notes, *more, *announce(plan, machine, config), peak_line(config, simulator, plan)]:
        say(line)
    require_memory(config, simulator, plan, machine)
    model = build_model(config, simulator, plan.device == "cuda")
    instruments, saving = build_utilization_tracker(plan, machine), WriteRetry(lock.require)
    trainer = build_trainer(config, plan, model, loaded, directory, budget, instruments, saving)
    damaged = resume_run(trainer, directory, say) if resume else []
    for line in changed_settings(config, directory) if resume else []:
        say(line)
    seconds = trainer.collector.compile(trainer.actor_params()) + trainer.updater.compile()
    for line in kernel_lines(seconds, CACHE_STATS):
        say(line)
    write_json(directory / CONFIG_FILE, {"values": config.model_dump(), "sources": sources, "passed_over": damaged})
    write_plan(directory, plan, machine)
    if loaded.scenario is not None:
        write_json(directory / "scenario.json", loaded.source["scenario"])
    if loaded.log is not None:
        _report_fidelity(loaded, directory, config.seed, say)
    say(
        f"Run directory: {directory}. Simulator: {simulator.observation_size} observations, "
        f"{simulator.action_space.in_words}, {rollout_in_words(config, simulator)}."
    )
    return Run(directory, trainer, plan, lock)


def _report_fidelity(loaded: LoadedSimulator, directory: Path, seed: int, say: Say) -> None:
    from core.training.evaluation.process_fidelity import fidelity_report, render_markdown

    assert loaded.scenario is not None
    say("Comparing log and simulation under the logged allocation habits ...")
    report = fidelity_report(loaded.log, loaded.scenario, seed=seed)
    write_json(directory / "fidelity.json", report.as_dict())
    (directory / "fidelity.md").write_text(render_markdown(report), encoding="utf-8")
    for sentence in report.sentences:
        say(sentence)
    say(f"The mined scenario is {directory / 'scenario.json'}, the comparison {directory / 'fidelity.md'}.")
