"""A Config becomes a run: simulator, plan, trainer, run directory."""

import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from longstride.errors import UserError
from longstride.hardware.detect import detect_machine, free_and_total_bytes
from longstride.hardware.planning.plan import Plan
from longstride.jit_cache.cache import CACHE_STATS
from longstride.learning.distributed.launch import shared_machine
from longstride.learning.distributed.ranks import ALONE, Ranks, host_first
from longstride.output import note_losses
from longstride.settings import Settings, train_command
from longstride.simulators.check import check_simulator
from longstride.simulators.hooks import kept_if_refused, write_files
from longstride.simulators.loading import LoadedSimulator
from longstride.terminal import make_console
from longstride.text import Say
from longstride.training.assembly.choose_options import with_chosen_options
from longstride.training.assembly.components import (
    build_comparisons,
    build_trainer,
    remarks,
)
from longstride.training.assembly.plan import plan_rank, require_memory
from longstride.training.assembly.presets import complete
from longstride.training.assembly.run_settings import (
    changed_settings,
    config_content,
    read_config,
    simulator_for,
    values_of_a_run,
)
from longstride.training.assembly.setup import Setup
from longstride.training.callbacks import Callbacks
from longstride.training.choice.choose import keep_choice
from longstride.training.display.messages import kernel_lines, memory_lines
from longstride.training.display.progress import Progress
from longstride.training.display.utilization import build_utilization_tracker
from longstride.training.extensions import NO_EXTENSIONS, Extensions
from longstride.training.failures import report_gpu_loss, resume_sentence
from longstride.training.resume import resume_run
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter, WriteRetry
from longstride.training.run_directory.directory import RunDirectory, choose_directory
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.kept_files import KeptFiles
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.messages_log import MessagesLog
from longstride.training.run_directory.metrics_log import MetricsLog, NoLog, whole_records
from longstride.training.run_directory.ownership import open_directory
from longstride.training.run_directory.plots import plot_learning_curve
from longstride.training.settings import Services
from longstride.training.time_budget import NO_LIMIT, budget_of
from longstride.training.tracking.services import observer_of
from longstride.training.trainer import Trainer


@dataclass
class Run:
    """A run that is ready to train; the lock of its directory is released after training."""

    directory: Path
    trainer: Trainer
    plan: Plan
    lock: RunLock | None  # None of a rank that writes nothing
    own_files: Sequence[Path] = ()  # files of the simulator that are written again if they vanish
    verbose: bool = False  # whether the speeds of a CPU and the times of its updates are printed

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
            self.trainer.updater.close()
            checkpoints.retry.require_all(self.directory, checkpoints.saved_iteration)
            return done
        finally:
            self.trainer.collector.close()
            if self.lock is not None:
                self.lock.release()

    def _train(self, console: Console, should_stop: Callable[[], bool]) -> bool:
        if self.lock is None:
            return self._follow(should_stop)
        trainer, retry = self.trainer, self.trainer.checkpoints.retry
        note_losses(MessagesLog(self.directory, self.lock.require).append)
        paths = RunDirectory(self.directory)
        trainer.observer.begin(self.directory, values_of_a_run(paths))
        kept = KeptFiles([paths.config, paths.plan, *self.own_files], retry)
        log = MetricsLog(self.directory, trainer.iteration, retry)
        iterations = trainer.settings.iterations if trainer.settings.iterations != NO_LIMIT else None
        share = trainer.length.shown_share(trainer.iteration)
        shown = iterations, trainer.iteration, trainer.simulator.main_metric, share, self._shows_machine
        with Progress(console, *shown) as progress:
            records = whole_records(self.directory)
            progress.remember(records)
            trainer.advice.recall(records)
            if log.note:
                progress.say(log.note)
            try:
                with trainer.utilization.sampler:
                    done = trainer.run(log, progress, partial(_asked, kept, should_stop))
            finally:
                trainer.checkpoints.close()
                log.close()
                for line in retry.lines():
                    progress.say(line)
            for line in [*self._keep_choice(), *self._last_lines()]:
                progress.say(line)
        return done

    @property
    def _shows_machine(self) -> bool:
        """Whether the times of updates and the speeds at the end are printed."""
        return self.verbose or self.plan.device == "cuda"

    def _follow(self, should_stop: Callable[[], bool]) -> bool:
        """Train as a rank that neither shows nor writes anything."""
        nowhere = make_console(file=io.StringIO(), quiet=True)
        with Progress(nowhere, None, 0, "") as progress, self.trainer.utilization.sampler:
            return self.trainer.run(NoLog(), progress, should_stop)

    def _keep_choice(self) -> list[str]:
        """Write how the chosen policy acts; return a line if that fails."""
        chosen = self.trainer.best_tracker.chosen
        if chosen is None:
            return []
        try:
            self.trainer.checkpoints.retry.require()
            keep_choice(RunDirectory(self.directory), chosen)
        except (OSError, UserError) as error:
            return [f"Whether the policy draws its actions could not be saved: {error}"]
        return []

    def _learning_curve(self) -> str:
        """Draw the learning curve, unless the directory is no longer that of the run; return a line about it."""
        simulator = self.trainer.simulator
        try:
            self.trainer.checkpoints.retry.require()
        except OSError as error:
            return f"No {RunDirectory(self.directory).learning_curve.name}: {error.strerror}."
        return plot_learning_curve(self.directory, simulator.main_metric, simulator.unit_of(simulator.main_metric))

    def _last_lines(self) -> list[str]:
        """Return the lines about the learning curve and the machine at the end of a run."""
        utilization = self.trainer.utilization
        lines = [self._learning_curve()]
        if self.plan.device == "cuda":
            free, total = free_and_total_bytes()
            lines += [*memory_lines(self.plan.device_name, total, free), *utilization.phase_lines()]
        if self._shows_machine:
            lines += filter(None, (utilization.simulation_line(), utilization.efficiency_line()))
        return lines


def build_run(
    settings: Settings,
    resume: bool,
    say: Say,
    loaded: LoadedSimulator | None = None,
    file: Path | None = None,
    verbose: bool = False,
    ranks: Ranks = ALONE,
    extensions: Extensions = NO_EXTENSIONS,
) -> Run:
    """Build everything, write config.json and plan.json, and print what was decided.

    Without a loaded simulator it is the one that the settings name. The file is what the user named, for commands in
    messages; ``verbose`` prints every choice of the plan. Of several ranks the first one writes and prints.

    Raises:
        UserError: the input, the run directory or the checkpoint is not right.
    """
    budget = budget_of(settings.config.time_budget)  # loading and compiling count
    given = simulator_for(settings, say, loaded)
    directory = ranks.from_first(lambda: choose_directory(settings.config.run_directory, given.name, resume))
    with ExitStack() as on_error, report_gpu_loss():
        inputs = *given.simulator.hooks.input_files, str(file or "")
        lock = open_directory(directory, resume, inputs, on_error, say) if ranks.rank == 0 else None
        for line in [*given.notes, *ranks.from_first(partial(_hints, given))]:
            say(line)
        command = train_command(settings, directory.path, file, ranks.host_size)
        setup = complete(settings, given, extensions)
        machine, earlier = shared_machine(detect_machine(), ranks.host_size), read_config(directory) if resume else None
        part, plan, planned = plan_rank(setup, machine, ranks, verbose)
        for line in [*setup.settings.notes, *remarks(setup, plan, budget), *planned]:
            say(line)
        with kept_if_refused(setup.simulator, directory.path, setup.config.seed, say) if lock else nullcontext():
            require_memory(part, plan, machine, ranks.size)
            setup = with_chosen_options(setup, earlier and earlier["values"], ranks, say)
        retry = WriteRetry(lock.require) if lock else None
        checkpoints = CheckpointWriter(directory, setup.config.checkpoints_kept, retry)
        evaluation, heuristics = build_comparisons(setup, directory)
        tracker = build_utilization_tracker(plan, machine, ranks.size)
        observer = observer_of(extensions.callbacks, setup.config.track, say) if lock else Callbacks()
        services = Services(checkpoints, budget, evaluation, heuristics if lock else None, tracker, ranks, observer)
        trainer = build_trainer(setup, plan, directory.path, services, command)
        on_error.callback(trainer.collector.close)
        ranks.advise(partial(_advice, trainer))
        damaged = resume_run(trainer, directory.path, say) if resume else []
        say("Loading kernels; the first run of a simulator or a network compiles them, which takes up to a minute ...")
        compiled = kernel_lines(host_first(ranks, trainer.compile), CACHE_STATS)
        trainer.utilization.play_with(trainer.collector.playing_threads)
        changes = changed_settings(setup.settings, earlier["values"]) if earlier and lock else []
        for line in [*changes, *compiled, *trainer.collector.take_lines()]:
            say(line)
        if lock:
            config = config_content(setup.settings, earlier, trainer.iteration, damaged, extensions.names())
            write_json(directory.plan, {**plan.as_json(), "machine": asdict(machine)})
            write_json(directory.config, config)
        own = write_files(setup.simulator, directory.path, setup.config.seed, say) if lock else ()
        setup.simulator.hooks.release()
        say(f"Run directory: {directory}. {_sizes(setup)}")
        on_error.pop_all()
        return Run(directory.path, trainer, plan, lock, own, verbose)


def _asked(kept: KeptFiles, should_stop: Callable[[], bool]) -> bool:
    """Return whether to stop after an iteration, once the files that have vanished are there again."""
    kept.restore()
    return should_stop()


def _sizes(setup: Setup) -> str:
    """Return a sentence about the numbers that the simulator shows and takes, and the size of a rollout."""
    simulator = setup.simulator
    shown = f"{simulator.observation_size} observations, {simulator.action_space.in_words}"
    return f"Simulator: {shown}, {setup.size.in_words}."


def _advice(trainer: Trainer) -> str:
    """Return what is saved of a run whose other processes have ended, and how to go on."""
    iteration = trainer.checkpoints.saved_iteration
    return resume_sentence(iteration, trainer.settings.command_after(iteration), "")


def _hints(loaded: LoadedSimulator) -> list[str]:
    """Check a user's own simulator."""
    is_checked = loaded.simulator.compiled and loaded.is_users_own
    return [f"Hint: {hint}" for hint in check_simulator(loaded.simulator)] if is_checked else []
