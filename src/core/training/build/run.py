"""A Config becomes a run: simulator, plan, trainer, run directory."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from core.config import Config
from core.errors import UserError
from core.hardware.detect import detect_machine, free_and_total_bytes
from core.hardware.planning.plan import Plan
from core.jit_cache.cache import CACHE_STATS
from core.simulators.check import check_simulator
from core.simulators.loading import PROCESS, LoadedSimulator
from core.text import Say
from core.training.build.components import build_evaluation, build_heuristics, build_trainer, collector_lines
from core.training.build.plan import announce, apply_plan, peak_line, plan_run, require_memory, write_plan
from core.training.build.presets import budget_of, with_budget, with_defaults, with_preset
from core.training.build.run_settings import changed_settings, load_configured, train_command
from core.training.build.setup import set_up
from core.training.display.messages import kernel_lines, memory_lines
from core.training.display.progress import Progress
from core.training.display.utilization import build_utilization_tracker
from core.training.failures import report_gpu_loss
from core.training.resume import resume_run
from core.training.run_directory.checkpoint_writer import CheckpointWriter, WriteRetry
from core.training.run_directory.directory import RunDirectory, choose_directory
from core.training.run_directory.files import write_json
from core.training.run_directory.lock import RunLock
from core.training.run_directory.metrics_log import MetricsLog, read_metrics
from core.training.run_directory.plots import plot_learning_curve
from core.training.run_directory.refused_rows import write_refused_rows
from core.training.settings import Services
from core.training.time_budget import NO_LIMIT
from core.training.trainer import Trainer


@dataclass
class Run:
    """A run that is ready to train; the lock of its directory is released after training."""

    directory: Path
    trainer: Trainer
    plan: Plan
    lock: RunLock

    def train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        """Train and release the lock; the display is on the console, the rest is as for :meth:`Trainer.run`.

        Raises:
            NotSavedError: not everything could be written.
            GpuLostError: the GPU failed; what was saved before is on the disk.
        """
        checkpoints = self.trainer.checkpoints
        try:
            with report_gpu_loss(self.trainer.settings, lambda: checkpoints.saved_iteration):
                done = self._train(console, should_stop)
            checkpoints.retry.require_all(self.directory, checkpoints.saved_iteration)
            return done
        finally:
            self.lock.release()

    def _train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        trainer, retry = self.trainer, self.trainer.checkpoints.retry
        log = MetricsLog(self.directory, trainer.iteration, retry)
        iterations = trainer.settings.iterations if trainer.settings.iterations != NO_LIMIT else None
        share = trainer.growth.share if trainer.growth else 0.0
        with Progress(console, iterations, trainer.iteration, trainer.simulator.main_metric, share) as progress:
            progress.remember(read_metrics(self.directory))
            if log.note:
                progress.say(log.note)
            try:
                with trainer.utilization.sampler:
                    done = trainer.run(log, progress, should_stop)
            finally:
                trainer.checkpoints.close()
                log.close()
                for line in retry.lines():
                    progress.say(line)
            for line in self._last_lines():
                progress.say(line)
        return done

    def _last_lines(self) -> list[str]:
        """Return the lines about the learning curve and the machine at the end of a run."""
        utilization, simulator = self.trainer.utilization, self.trainer.simulator
        metric = simulator.main_metric
        lines = [plot_learning_curve(self.directory, metric, simulator.unit_of(metric))]
        if self.plan.device == "cuda":
            free, total = free_and_total_bytes()
            lines += [*memory_lines(self.plan.device_name, total, free), *utilization.phase_lines()]
        return [*lines, *filter(None, (utilization.simulation_line(), utilization.efficiency_line()))]


def build_run(
    config: Config,
    sources: dict[str, str],
    resume: bool,
    say: Say,
    loaded: LoadedSimulator | None = None,
    file: Path | None = None,
    verbose: bool = False,
) -> Run:
    """Build everything, write config.json and plan.json, and print what was decided.

    Without a loaded simulator it is the one that the settings name. The file is what the user named, for commands in
    messages; ``verbose`` prints every choice of the plan.

    Raises:
        UserError: the input, the run directory or the checkpoint is not right.
    """
    budget = budget_of(config)  # loading and compiling count
    loaded = loaded or load_configured(config)
    directory = _choose_directory(config, resume, loaded)
    lock = RunLock(directory.path)
    with ExitStack() as on_error, report_gpu_loss():
        on_error.callback(lock.release, abandon=True)  # which removes the directory if it is new
        if not resume:
            directory.require_free()
        is_users_own = config.simulator != PROCESS and loaded.simulator.compiled
        hints = [f"Hint: {hint}" for hint in check_simulator(loaded.simulator)] if is_users_own else []
        for line in [*filter(None, [lock.note]), *loaded.notes, *hints]:
            say(line)
        command = train_command(config, sources, directory.path, file)
        config, sources, default_lines = with_defaults(config, sources, loaded.simulator)
        counted = set_up(config, loaded.simulator).size.counted
        config, sources, preset_lines = with_preset(config, sources, counted)
        config, sources, budget_lines = with_budget(config, sources)
        setup, machine = set_up(config, loaded.simulator, loaded.source), detect_machine()
        plan = apply_plan(plan_run(setup, machine))
        for line in [
            *default_lines,
            *preset_lines,
            *budget_lines,
            *announce(plan, machine, config, verbose),
            peak_line(setup, plan),
        ]:
            say(line)
        require_memory(setup, plan, machine)
        checkpoints = CheckpointWriter(directory.path, config.checkpoints_kept, WriteRetry(lock.require))
        played = build_evaluation(setup), build_heuristics(setup, directory.path)
        services = Services(checkpoints, budget, *played, build_utilization_tracker(plan, machine))
        trainer = build_trainer(setup, plan, directory.path, command, services)
        damaged = resume_run(trainer, directory.path, say) if resume else []
        changes = changed_settings(config, sources, directory.path) if resume else []
        say("Loading kernels; the first run of a simulator or a network compiles them, which takes up to a minute ...")
        seconds = trainer.collector.compile(trainer.actor_params()) + trainer.updater.compile()
        for line in [*changes, *kernel_lines(seconds, CACHE_STATS), *collector_lines(trainer.collector)]:
            say(line)
        settings = {"values": config.model_dump(), "sources": sources, "passed_over": damaged}
        write_json(directory.config, settings)
        write_plan(directory.path, plan, machine)
        _write_scenario(loaded, directory, config.seed, say)
        sizes = f"{loaded.simulator.observation_size} observations, {loaded.simulator.action_space.in_words}"
        say(f"Run directory: {directory}. Simulator: {sizes}, {setup.size.in_words}.")
        on_error.pop_all()
        return Run(directory.path, trainer, plan, lock)


def _choose_directory(config: Config, resume: bool, loaded: LoadedSimulator) -> RunDirectory:
    if resume and not config.run_directory:
        raise UserError("--resume needs --run-directory DIR, the run to continue.")
    name = loaded.scenario.name if loaded.scenario else loaded.source["simulator"].rpartition(":")[2].lower()
    return choose_directory(config.run_directory, name)


def _write_scenario(loaded: LoadedSimulator, directory: RunDirectory, seed: int, say: Say) -> None:
    """Write the scenario of a process simulator; one that was mined is compared with its event log."""
    if loaded.scenario is None:
        return
    write_json(directory.scenario, loaded.source["scenario"])
    if loaded.log is None:
        return
    if loaded.log.refused:
        write_refused_rows(loaded.log.refused, loaded.log.unit, directory.refused_rows)
        say(f"The rows that were left out are in {directory.refused_rows}.")
    from core.training.evaluation.process_fidelity import fidelity_report, render_markdown

    say("Comparing log and simulation under the logged allocation habits ...")
    report = fidelity_report(loaded.log, loaded.scenario, seed=seed)
    write_json(directory.fidelity, asdict(report))
    directory.fidelity_report.write_text(render_markdown(report), encoding="utf-8")
    for sentence in report.sentences:
        say(sentence)
    say(f"The mined scenario is {directory.scenario}, the comparison {directory.fidelity_report}.")
