"""``longstride.train``: a run from Python, in a program or a notebook."""

import io
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from longstride.api.interrupts import ending_signals
from longstride.api.report import report_at_the_end, wants_report
from longstride.api.training import Start, TrainOptions, open_training
from longstride.config import Config
from longstride.errors import UserError
from longstride.learning.algorithms.interface import Algorithm
from longstride.learning.distributed.ranks import Ranks
from longstride.output import kept_output
from longstride.policies.families.register import Network, add_network
from longstride.settings import Settings
from longstride.simulators.gym.adapter import PREFIX
from longstride.simulators.loading import LoadedSimulator, from_object
from longstride.simulators.source_files import SOURCE_FILE, SOURCE_SHA256
from longstride.terminal import make_console, say_on
from longstride.text import Say, counted
from longstride.training.assembly.resumed_settings import resumed_settings
from longstride.training.assembly.run_settings import load_configured
from longstride.training.assembly.simulator_trust import Consent, require_trusted, saved_source
from longstride.training.display.notebook import in_notebook
from longstride.training.extensions import checked
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.metrics_log import read_metrics
from longstride.training.run_directory.ownership import remove_run

_ENVIRONMENT_ID = re.compile(r"[\w/.-]+-v\d+")


@dataclass(frozen=True)
class TrainingRun:
    """A run that :func:`train` made.

    Attributes:
        directory: run directory with checkpoints, metrics.jsonl and config.json.
        completed: whether all iterations are done, or the time budget; False where an interrupt stopped the run.
        hyperparameters: settings of the run.
        loaded: simulator of the run.
    """

    directory: Path
    completed: bool
    hyperparameters: Config = field(repr=False)
    loaded: LoadedSimulator = field(repr=False)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Records of metrics.jsonl, one for each iteration."""
        return read_metrics(self.directory)

    def to_pandas(self) -> Any:
        """Return the metrics as a ``pandas.DataFrame`` with a row for each iteration; nested names have a slash.

        Raises:
            UserError: pandas is not installed.
        """
        return import_pandas("run.metrics").json_normalize(self.metrics, sep="/")


def train(
    simulator: Any,
    hyperparameters: Config | None = None,
    *,
    run_directory: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    report: bool = True,
    trust_simulator: bool = False,
    exist_ok: bool = False,
    callbacks: Sequence[Any] = (),
    algorithm: Callable[[Algorithm], Algorithm] | None = None,
    network: Network | None = None,
) -> TrainingRun:
    """Train a policy and write a run directory.

    The first interrupt (Ctrl-C, or a notebook's stop button) ends the run after the iteration, with everything saved.

    Args:
        simulator: simulator to train on, or an environment of Gymnasium, of which each instance plays a copy; a class
            of either that needs no arguments, or a function that returns one; or its name as ``--simulator`` takes it:
            ``"process"``, ``"cartpole"``, ``"file.py:Class"``, ``"package.module:Class"``, ``"gymnasium:CartPole-v1"``.
        hyperparameters: settings of the run; None for the defaults. A run that is resumed keeps its own, but for those
            that are set here.
        run_directory: folder to write; by default the one in ``hyperparameters``, or a new one in ``runs``.
        resume: whether to continue the run in the run directory.
        quiet: whether to print nothing.
        report: whether to write ``report.html`` at the end.
        trust_simulator: whether a run that is resumed by the name of its simulator may run the simulator's source
            although it has changed since.
        exist_ok: whether a run that is in the run directory already is removed, so that the same call can be made
            again. Other files there stay.
        callbacks: objects with methods of :class:`Callback`, which see the records, or functions for ``on_iteration``.
        algorithm: function that takes the algorithm of the settings and returns another, such as one with a further
            term of the loss. A run that is resumed needs the same.
        network: network of the policy, in place of ``policy_network``.

    Raises:
        UserError: bad input, with a sentence that says what to do.
        SimulatorError: the simulator broke its contract; finished iterations are saved.
    """
    settings = _settings_of(hyperparameters, run_directory, network)
    options = TrainOptions(resume, report=report, trust=trust_simulator, extensions=checked(callbacks, algorithm))
    _make_room(settings.config.run_directory, resume, exist_ok)
    return _trained(simulator, settings, options, quiet)


def _settings_of(hyperparameters: Config | None, directory: str | Path | None, network: Network | None) -> Settings:
    """Return the settings that a caller passes.

    Raises:
        UserError: one is not what it should be.
    """
    given = Config() if hyperparameters is None else hyperparameters
    if not isinstance(given, Config):
        raise UserError(f"hyperparameters must be Hyperparameters(...), not {type(given).__name__}.")
    given = given.model_copy(update={"run_directory": str(directory or given.run_directory)})
    if network is not None:
        add_network(network)
        given = given.model_copy(update={"policy_network": network.family.name})
    return Settings(given, {n: "flag" if n in given.model_fields_set else "default" for n in Config.model_fields})


def _trained(simulator: Any, settings: Settings, options: TrainOptions, quiet: bool) -> TrainingRun:
    """Train, and print what came of it."""
    console, begin = console_for(quiet), partial(_begin, simulator, settings, options)
    with kept_output(), _same_torch_threads(), open_training(settings, options, begin, say_on(console)) as training:
        signals = [signal.SIGINT] if training.ranks.size == 1 else ending_signals()  # torchrun passes on all of them
        completed, run, say = training.train(console, *signals), training.run, training.say
        if wants_report(not options.report) and training.is_first:
            report_at_the_end(run.directory, say, run.trainer.simulator)
    loaded = training.start.loaded
    assert loaded is not None
    done = run.trainer.iteration
    if completed:
        say(f"Trained {counted(done, 'iteration')}; everything is in {run.directory}.")
    else:
        say(f"Stopped after iteration {done}, saved in {run.directory}; resume=True continues the run.")
    return TrainingRun(run.directory, completed, training.start.settings.config, loaded)


def _make_room(directory: str, resume: bool, exist_ok: bool) -> None:
    """Remove the run in a directory if the caller wants that, and check that a new one has room.

    Raises:
        UserError: no directory is named where one is needed, it holds a run, or that cannot be removed.
    """
    if (resume or exist_ok) and not directory:
        name = "resume" if resume else "exist_ok"
        raise UserError(f"{name}=True needs run_directory=, the folder of the run.")
    if resume or not directory or not RunDirectory(directory).holds_run():
        return
    if not exist_ok:
        raise UserError(
            f"{directory} already holds a run; pass resume=True to continue it, exist_ok=True to remove it and begin "
            "again, or another run_directory."
        )
    remove_run(Path(directory))


def _begin(simulator: Any, given: Settings, options: TrainOptions, resume: bool, ranks: Ranks, say: Say) -> Start:
    """Return settings and simulator; a run that continues has its own settings.

    Raises:
        UserError: they do not go together, or the simulator may not run.
    """
    if not resume:
        return _started(given, load(simulator, given.config))
    resumed = ranks.from_first(lambda: resumed_settings(given)).told(say)
    by_name = isinstance(simulator, str) and "simulator" not in given.config.model_fields_set
    full_name = {"simulator": _full_name(str(simulator))}
    described = resumed.config.model_copy(update=full_name) if by_name else given.config
    if isinstance(simulator, str):
        directory = Path(given.config.run_directory)
        name = _full_name(simulator)
        require_named(simulator, described, saved_source(directory, name), directory, options.trust)
    return _started(resumed, load(simulator, described))


def _started(settings: Settings, loaded: LoadedSimulator) -> Start:
    config = settings.config.model_copy(update={"simulator": loaded.source["simulator"]})
    return Start(replace(settings, config=config), loaded)


def require_named(name: str, config: Config, recorded: Mapping[str, Any], where: Path, trust: bool) -> None:
    """Check that the source of a simulator that a caller names is the one that a run has recorded.

    Raises:
        UserError: it is not, and the caller does not trust it.
    """
    source = {"simulator": _full_name(name), "options": config.simulator_options}
    known = {key: recorded[key] for key in (SOURCE_SHA256, SOURCE_FILE) if key in recorded}
    require_trusted(source | known, where, Consent(named=True, trusted=trust, from_python=True))


def _full_name(simulator: str) -> str:
    """Return the name of a simulator as ``--simulator`` takes it; a Gymnasium environment needs no prefix."""
    return PREFIX + simulator if _ENVIRONMENT_ID.fullmatch(simulator) else simulator


def load(simulator: Any, config: Config) -> LoadedSimulator:
    """Return the simulator that a caller of the API passes; settings describe one that is given by name.

    Raises:
        UserError: it is neither, it cannot be built, or the settings name another one.
    """
    if isinstance(simulator, str):
        loaded = load_configured(config.model_copy(update={"simulator": _full_name(simulator)}))
    else:
        if config.simulator_options:
            raise UserError("simulator_options are for a simulator given by name; pass them to the constructor.")
        loaded = from_object(simulator).with_objective(config.objective)
    name = loaded.source["simulator"]
    if "simulator" in config.model_fields_set and config.simulator != name:
        raise UserError(f"The simulator is {name}, but the hyperparameters name {config.simulator}; leave out one.")
    return loaded


def console_for(quiet: bool) -> Console:
    """Return where to print: lines of text, also in a notebook, which wraps them itself; nothing where ``quiet``."""
    if quiet:
        return make_console(file=io.StringIO(), quiet=True)
    return make_console(force_jupyter=False, force_terminal=False if in_notebook() else None)


@contextmanager
def _same_torch_threads() -> Iterator[None]:
    """Leave torch's number of threads as the caller had it."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def import_pandas(otherwise: str) -> Any:
    """Return the module pandas; ``otherwise`` is an expression that has the same without it.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise UserError(
            f"pandas is not installed; pip install pandas adds it. {otherwise} has the same as dictionaries."
        ) from None
    return pandas
