"""From a name to the class or function that makes a simulator, also a name of an earlier version."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import Any

from longstride.errors import UserError, reason, suggestion
from longstride.import_path import search_working_folder_last
from longstride.simulators.gym.objects import is_environment_class
from longstride.simulators.simulator import Simulator

_MOVED = {
    "core.simulators.process.": "longstride.process.",
    "longstride.simulators.process.": "longstride.process.",
    "core.simulators.": "longstride.simulators.",
}
"""Where the modules of simulators were, and where they are; the first that fits holds. The package was ``core``."""


def present_name(name: str) -> str:
    """Return the name that a simulator of this package has now; any other name is returned as it is."""
    for before, now in _MOVED.items():
        if name.startswith(before):
            return now + name.removeprefix(before)
    return name


def _hint_of(error: Exception) -> str:
    """Return a sentence, with a space before it, about an import of a missing module; nothing for another error."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if name.split(".")[0] == "core":
        return " The package core is called longstride now; import from longstride."
    if name.startswith("longstride.simulators.process"):
        return " longstride.simulators.process is called longstride.process now."
    if name.split(".")[0] == "gymnasium":
        return " Install it: pip install 'longstride[gymnasium]'."
    return f" Install what {name} belongs to, or correct the name." if name else ""


def maker_of(name: str, built_in: Collection[str]) -> Callable[..., Any]:
    """Import ``module:NAME`` or ``file.py:NAME``, a class of simulators or a function that returns one.

    Raises:
        UserError: there is none; the sentence names short names of built-in ones where the name is not of this form.
    """
    module_name, _, own_name = name.rpartition(":")
    if not module_name or not own_name:
        ending = suggestion(name.lower(), built_in, f"built in are {', '.join(built_in)}")
        raise UserError(f"SIMULATOR {name!r} is neither built in nor module:Class nor file.py:Class{ending}")
    module = _module_from_file(Path(module_name)) if module_name.endswith(".py") else _module(module_name)
    maker = getattr(module, own_name, None)
    if maker is None:
        raise UserError(f"{module_name} has no {own_name}{suggestion(own_name, dir(module))}")
    is_class = is_environment_class(maker) or (isinstance(maker, type) and issubclass(maker, Simulator))
    if is_class or inspect.isfunction(maker):
        made: Callable[..., Any] = maker
        return made
    raise UserError(
        f"{name} is neither a class of longstride.Simulator or gymnasium.Env nor a function that returns one of them."
    )


def _module(name: str) -> ModuleType:
    if not name.startswith("longstride."):  # of our own nothing lies there, and an optional package may be missing
        search_working_folder_last()
    try:
        return importlib.import_module(name)
    except Exception as error:
        sentence = f"Cannot import the simulator's module {name}: {type(error).__name__}: {reason(error)}."
        raise UserError(sentence + _hint_of(error)) from error


def _module_from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no simulator file {path}.")
    name = f"simulator_file_{path.stem}"  # a name of its own: shop.py must not replace an installed module shop
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # what lies beside the file can be imported, as where Python runs it; the last to win
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        hint = _hint_of(error)
        if "relative import" in str(error):
            hint = f" A file of a package is named as PACKAGE.{path.stem}:CLASS, from the folder above."
        sentence = f"Cannot run the simulator file {path}: {type(error).__name__}: {reason(error)}."
        raise UserError(sentence + hint) from error
    return module
