"""From the names in a Config or a checkpoint to a simulator."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from longstride.errors import UserError, one_line, suggestion
from longstride.import_path import search_working_folder_last
from longstride.simulators.gym.adapter import PREFIX, is_gymnasiums_own, registered
from longstride.simulators.gym.objects import (
    OBJECT,
    from_environment,
    is_environment,
    made_by,
    source_of_maker,
)
from longstride.simulators.hooks import OBJECTIVE, parse_objective
from longstride.simulators.instances import require_parameters, source_of
from longstride.simulators.makers import maker_of, present_name
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import recorded_source, source_change
from longstride.simulators.validate import require_complete
from longstride.text import Say

BUILT_IN = {
    "process": "longstride.process.load:make_process",
    "acrobot": "longstride.simulators.classic_control:Acrobot",
    "base_stock": "longstride.simulators.inventory:BaseStock",
    "cartpole": "longstride.simulators.classic_control:CartPole",
    "criss_cross": "longstride.simulators.queueing:CrissCross",
    "hospital": "longstride.simulators.queueing:Hospital",
    "lost_sales": "longstride.simulators.inventory:LostSales",
    "mountain_car": "longstride.simulators.classic_control:MountainCar",
    "mountain_car_continuous": "longstride.simulators.classic_control:MountainCarContinuous",
    "n_model": "longstride.simulators.queueing:NModel",
    "pendulum": "longstride.simulators.classic_control:Pendulum",
    "reentrant_line": "longstride.simulators.queueing:ReentrantLine",
    "tandem": "longstride.simulators.queueing:Tandem",
}
"""Short names of classes, or of functions that return a simulator."""

_FROM_SOURCE = {"process": "longstride.process.load:from_source"}
"""Functions that build a simulator again from a checkpoint, where its name and options are not enough."""


@dataclass(frozen=True)
class LoadedSimulator:
    """A simulator and its source.

    Attributes:
        simulator: complete simulator.
        source: JSON values from which :func:`from_source` builds it again.
        remarks: sentences for the user about its source.
    """

    simulator: Simulator
    source: dict[str, Any]
    remarks: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Name of run directories."""
        return self.simulator.hooks.name or str(self.source["simulator"]).rpartition(":")[2].lower()

    @property
    def is_users_own(self) -> bool:
        """Whether it has a source that runs code of neither this package nor Gymnasium."""
        return bool(self.source) and not is_built_in(str(self.source["simulator"]))

    @property
    def notes(self) -> Sequence[str]:
        """Sentences for the user about how the simulator was made."""
        return [*self.remarks, *self.simulator.hooks.notes]

    def with_options(self, options: Mapping[str, Any]) -> "LoadedSimulator":
        """Return the simulator with some of its own settings changed, and its source."""
        if not options:
            return self
        simulator = self.simulator.hooks.with_options(self.simulator, options)
        return LoadedSimulator(simulator, simulator.hooks.source(simulator) or self.source, self.remarks)

    def with_objective(self, objective: str) -> "LoadedSimulator":
        """Return the simulator with an objective such as ``cost=1``, or a UserError; without one, its own is left."""
        if not objective:
            return self
        weights = parse_objective(objective)
        if self.simulator.hooks.takes_objective:
            return self.with_options({OBJECTIVE: weights})
        simulator = self.simulator.hooks.with_objective(self.simulator, weights)
        own = simulator.hooks.source(simulator)
        remarks = [*self.remarks, *([] if own else [f"Objective: {objective}."])]  # those with a source have words
        return LoadedSimulator(simulator, own or {**self.source, OBJECTIVE: objective}, remarks)

    def compared_with(self, recorded: Mapping[str, Any], *remarks: str) -> "LoadedSimulator":
        """Return the simulator with a remark if its source is not the one that a checkpoint has recorded."""
        return replace(self, remarks=[*filter(None, (*remarks, source_change(recorded, self.source)))])


def is_built_in(name: str) -> bool:
    """Return whether a simulator's name runs code of this package or of Gymnasium alone."""
    return _built_in(name) is not None or is_gymnasiums_own(name)


def _built_in(name: str) -> str | None:
    """Return the class of a built-in simulator by its short name, or by the name of its class, however long."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, _, kind = present_name(name).rpartition(":")
    same = (path for path in BUILT_IN.values() if path.endswith(f":{kind}"))
    return next((path for path in same if f"{module}.".startswith(f"{path.rpartition(':')[0]}.")), None)


def load_simulator(name: str, options: Mapping[str, Any] | None = None, say: Say | None = None) -> LoadedSimulator:
    """Build a simulator by its name.

    Args:
        name: one of ``BUILT_IN``, ``gymnasium:ID``, ``module:NAME`` or ``file.py:NAME``, with the name of a class or
            of a function that returns a simulator.
        options: keyword arguments of the class, of the function or of ``gymnasium.make``, JSON values.
        say: prints lines about what takes longer than some seconds, for a function that takes it; None for none.

    Raises:
        UserError: a named thing does not exist or is not usable.
    """
    given = dict(options or {})
    source: dict[str, Any] = {"simulator": name, "options": given}
    built_in = _built_in(name)
    if built_in is None:
        source |= recorded_source(name)  # before it runs
    if name.startswith(PREFIX):
        if ":" in name.removeprefix(PREFIX):
            search_working_folder_last()
        return LoadedSimulator(registered(name.removeprefix(PREFIX), given), source)
    simulator = _make(name, maker_of(built_in or name, BUILT_IN), given, say)
    return LoadedSimulator(simulator, simulator.hooks.source(simulator) or source)


def _make(
    name: str,
    maker: Callable[..., Any],
    options: dict[str, Any],
    say: Say | None,
    remedy: str = "--simulator-option NAME=VALUE gives one",
) -> Simulator:
    """Return the simulator that a class or function makes of options; the remedy is for one that needs arguments.

    Raises:
        UserError: it has no such option, or it cannot be built.
    """
    parameters = inspect.signature(maker).parameters
    _require_options(name, parameters, options)
    more = {"say": say} if "say" in parameters else {}
    try:
        simulator = maker(**options, **more)
    except UserError:
        raise
    except Exception as error:
        given = "with " + ", ".join(f"{option}={value}" for option, value in options.items())
        arguments = given if options else f"without arguments ({remedy})"
        raise UserError(f"{name} cannot be built {arguments}: {type(error).__name__}: {one_line(error)}.") from error
    if is_environment(simulator):
        return made_by(partial(maker, **more), name, options, simulator)
    if not isinstance(simulator, Simulator):
        raise UserError(f"{name} returned {simulator!r:.80}, no longstride.Simulator and no Gymnasium environment.")
    require_complete(simulator)
    return simulator


def from_source(source: dict[str, Any], changes: Mapping[str, Any] | None = None) -> LoadedSimulator:
    """Build the simulator that a checkpoint was trained on.

    Args:
        source: JSON values of the checkpoint, from :class:`LoadedSimulator`.
        changes: options that replace the checkpoint's own of the same name.

    Raises:
        UserError: the simulator cannot be built here.
    """
    name, options = str(source.get("simulator")), source.get("options", {})
    if not isinstance(options, dict):
        raise UserError(f"The checkpoint's simulator options are {options!r:.50}, which no run writes.")
    if source.get(OBJECT):
        raise UserError(
            f"The run's environment, a {name.rpartition(':')[2]}, was an object of a program, which no name makes "
            "again; pass it: longstride.evaluate(run, environment), longstride.train(environment, ..., resume=True)."
        )
    if name in _FROM_SOURCE:
        simulator = maker_of(_FROM_SOURCE[name], BUILT_IN)(source, dict(changes or {}))
        return LoadedSimulator(simulator, simulator.hooks.source(simulator) or source)
    loaded = load_simulator(name, {**options, **(changes or {})})
    if not changes:
        require_parameters(loaded.simulator, source)
    return loaded.with_objective(str(source.get(OBJECTIVE, "")))


def built_in_from_source(source: Mapping[str, Any]) -> LoadedSimulator:
    """Build the simulator of a checkpoint as :func:`from_source` does, if that runs nothing of a user's.

    Raises:
        UserError: the simulator is a user's own, or cannot be built here.
    """
    name = str(source.get("simulator"))
    if not is_built_in(name):
        raise UserError(f"the run's simulator {name} is Python of its own, which runs only if --simulator names it")
    return from_source(dict(source))


def from_instance(simulator: Simulator) -> LoadedSimulator:
    """Return a simulator that a Python program made itself, with its class as its source.

    Raises:
        UserError: an attribute or function is missing or of the wrong kind.
    """
    require_complete(simulator)
    return LoadedSimulator(simulator, source_of(simulator))


def from_object(given: Any) -> LoadedSimulator:
    """Return what a Python program passes as its simulator.

    Args:
        given: a simulator or an environment of Gymnasium's interface; a class of either that needs no arguments, or a
            function that returns one.

    Raises:
        UserError: it is something else, or cannot be made.
    """
    if isinstance(given, Simulator):
        return from_instance(given)
    if is_environment(given):
        return LoadedSimulator(*from_environment(given))
    if not callable(given):
        raise UserError(
            f"simulator is {given!r:.80}; pass a Simulator, a Gymnasium environment, a class or function that makes "
            "one, or a name."
        )
    source = source_of_maker(given)
    made = _make(str(source["simulator"]), given, {}, None, "pass an object that you have made")
    return from_instance(made) if made.compiled else LoadedSimulator(made, source)


def _require_options(name: str, parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]) -> None:
    """Refuse an option that a class's constructor, or a function, does not name."""
    kinds = parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds):
        return
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [parameter.name for parameter in kinds if parameter.kind in named and parameter.name != "say"]
    for option in options:
        if option not in known:
            names = f" (there are {', '.join(known)})" if known else "; it takes none"
            raise UserError(f"{name} has no option {option}{names}{suggestion(option, known)}")
