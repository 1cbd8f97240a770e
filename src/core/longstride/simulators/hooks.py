"""What a run, an evaluation and a report ask of a simulator besides its episodes.

A simulator that wants any of it sets ``hooks`` to an object of a class that extends :class:`Hooks`. Nothing here is
compiled. The process simulator has such an object (``longstride.process.hooks``); any other simulator can have one.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.simulators.compile_errors import with_line
from longstride.text import Say

OBJECTIVE = "objective"
"""Key in a checkpoint's source of the objective, if it is not the simulator's own."""

Records = list[dict[str, Any]]
"""One record per episode: the return under ``"return"`` and the simulator's metrics."""


class Trial(NamedTuple):
    """What a simulator may use to choose its options before a run begins.

    Attributes:
        resumed: settings of the run that continues, from its config.json; None for a new run.
        describes_actions: whether the policy scores descriptions of actions (``POLICY_NETWORK = "pointer"``).
        play: plays the policy that training would begin with, greedily, for each of some simulators with arrays of the
            same sizes; takes simulators by name, a number of episodes and a name of random streams, and returns the
            records of each.
        say: prints a line about what takes longer than some seconds.
    """

    resumed: Mapping[str, Any] | None
    describes_actions: bool
    play: Callable[[Mapping[str, Any], int, str], dict[str, Records]]
    say: Say | None


class Chosen(NamedTuple):
    """Options that a simulator chose, by the names of settings, and lines for the user."""

    options: dict[str, Any]
    lines: list[str]


class PlayedEpisode(NamedTuple):
    """An episode that was played for a report.

    Attributes:
        policy: ``"trained"`` or the name of a heuristic.
        actions: its actions, [steps, numbers of an action].
        seed: seed of its random streams.
        streams: their name.
        episode: its number.
    """

    policy: str
    actions: np.ndarray
    seed: int
    streams: str
    episode: int


@contextmanager
def naming_the_hook(simulator: Any, name: str) -> Iterator[None]:
    """Turn an exception of a simulator's own hook into one sentence that names it.

    Raises:
        UserError: the hook raised.
    """
    try:
        yield
    except (UserError, OSError, MemoryError):  # which the command line words itself
        raise
    except Exception as error:
        raise UserError(
            f"{type(simulator).__name__}.hooks.{name} raised {with_line(error)}; correct it, or remove it."
        ) from error


def write_files(simulator: Any, folder: Path, seed: int, say: Say) -> list[Path]:
    """Write what a simulator writes into a run directory, and return the files; see :meth:`Hooks.write_files`."""
    with naming_the_hook(simulator, "write_files"):
        return list(simulator.hooks.write_files(simulator, folder, seed, say))


@contextmanager
def kept_if_refused(simulator: Any, folder: Path, seed: int, say: Say) -> Iterator[None]:
    """Write the files of a simulator into a run directory, if they took long to make and what follows is refused."""
    try:
        yield
    except UserError:
        if simulator.hooks.files_if_refused:
            write_files(simulator, folder, seed, say)
        raise


def close_all(simulator: Any) -> list[str]:
    """Close what a simulator's episodes have opened, and return sentences about what failed, in this too."""
    try:
        with naming_the_hook(simulator, "close"):
            return list(simulator.hooks.close())
    except (UserError, OSError, MemoryError) as error:
        return [str(error)]


def parse_objective(text: str) -> dict[str, float]:
    """Return the weights in a text such as ``cost=1 tardiness=20``, by the names of quantities.

    Raises:
        UserError: the text is something else.
    """
    weights: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        name, equals, number = word.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not name or not equals or not math.isfinite(weight):
            raise UserError(f"OBJECTIVE is {text!r}; expected NAME=WEIGHT ..., such as 'cost=1 tardiness=20'.")
        if name in weights:
            raise UserError(f"OBJECTIVE is {text!r}, which weighs {name} twice; leave out one.")
        weights[name] = weight
    return weights


def weighed(simulator: Any, objective: Mapping[str, float]) -> Any:
    """Return a copy of a simulator with these weights in ``parameters.weights``, and 0 for other quantities.

    Raises:
        UserError: the simulator does not declare a quantity.
    """
    kind, names = type(simulator).__name__, list(simulator.quantities)
    for name in objective:
        if not names:
            raise UserError(f"OBJECTIVE weighs {name!r}, but {kind} declares no quantities; leave it out.")
        if name not in names:
            ending = suggestion(name, names, f"there are {', '.join(names)}")
            raise UserError(f"OBJECTIVE weighs {name!r}, which {kind} does not declare{ending}")
    changed = copy.copy(simulator)
    row = np.array([objective.get(name, 0.0) for name in names])
    if hasattr(simulator.parameters, "_replace"):
        changed.parameters = simulator.parameters._replace(weights=row)
    else:
        changed.parameters = simulator.parameters.copy()
        changed.parameters["weights"] = row
    return changed


class Hooks:
    """The default of each hook: nothing.

    Attributes:
        name: name of run directories; empty for that of the simulator's class.
        notes: sentences for the user about how the simulator was made.
        input_files: files that it was made from; no run may write over them.
        own_settings: settings of a run that are options of this simulator and belong to the policy that is trained;
            no size of the simulator may follow from them.
        takes_objective: whether :meth:`with_options` takes an ``objective``, too; then it replaces
            :meth:`with_objective`.
        whole_episodes: whether a policy is judged by whole episodes while it is trained: cut ones would mislead.
        files_if_refused: whether :meth:`write_files` is called although the run is refused, as they took long to make.
        report_policies: heuristics of which a report shows an episode.
        learns: whether :meth:`learn` changes the parameters of the simulator; then it is not played on other hosts.
    """

    name: str = ""
    notes: Sequence[str] = ()
    input_files: Sequence[str] = ()
    own_settings: Sequence[str] = ()
    takes_objective: bool = False
    whole_episodes: bool = False
    files_if_refused: bool = False
    report_policies: Sequence[str] = ()
    learns: bool = False

    def choose_options(self, simulator: Any, trial: Trial) -> Chosen:
        """Return the ``own_settings`` with which a run begins.

        Raises:
            UserError: those that the user named do not go with the simulator.
        """
        return Chosen({}, [])

    def with_options(self, simulator: Any, options: Mapping[str, Any]) -> Any:
        """Return the simulator with some of its ``own_settings`` changed, or its objective (weights by quantity)."""
        return simulator

    def with_objective(self, simulator: Any, objective: Mapping[str, float]) -> Any:
        """Return the simulator with other weights of its ``quantities``.

        Raises:
            UserError: it does not declare one of them, or cannot weigh them so.
        """
        return weighed(simulator, objective)

    def settings_of(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a checkpoint's options that are ``own_settings``.

        Raises:
            UserError: no run writes them.
        """
        return {}

    def source(self, simulator: Any) -> dict[str, Any] | None:
        """Return the JSON values of a checkpoint that build the simulator again; None for its name and options."""
        return None

    def write_files(self, simulator: Any, folder: Path, seed: int, say: Say) -> list[Path]:
        """Write what a run directory keeps of the simulator, and return those files that a run restores if they vanish.

        Raises:
            UserError: a file cannot be written.
        """
        return []

    def learn(self, simulator: Any, records: Records) -> dict[str, float]:
        """Change what the reward weighs by the episodes that an iteration finished; return figures for the record."""
        return {}

    def state(self, simulator: Any) -> dict[str, float]:
        """Return what :meth:`learn` has changed, as JSON values of a checkpoint."""
        return {}

    def restore(self, simulator: Any, state: Mapping[str, float]) -> None:
        """Restore :meth:`state` in a run that continues; nothing of a checkpoint of an earlier version."""

    def release(self) -> None:
        """Forget what only :meth:`write_files` needs; a run has written them, or will not."""

    def close(self) -> list[str]:
        """Close what the episodes of a run or an evaluation have opened; return sentences about what failed.

        It is called at the end, also after an error or an interrupt.
        """
        return []

    def short_episodes(self, simulator: Any) -> Any | None:
        """Return the simulator with short episodes, for the check at the end of a run; None to cut long ones."""
        return None

    def opening(self, simulator: Any, records: Mapping[str, Records]) -> list[str]:
        """Return sentences with which the report of a run opens."""
        return []

    def withheld(self, simulator: Any) -> str:
        """Return why no policy may be called better or worse than another here; empty where verdicts are given."""
        return ""

    def evaluation_note(self, simulator: Any, records: Mapping[str, Records]) -> str:
        """Return a sentence below the table of an evaluation; empty for none."""
        return ""

    def report_section(self, simulator: Any, episodes: Sequence[PlayedEpisode], missing: str) -> Any | None:
        """Return a ``longstride.report.page.Section``; None for none. Without episodes ``missing`` says why."""
        return None
