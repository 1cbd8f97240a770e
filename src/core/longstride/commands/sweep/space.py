"""The space of a search: which settings it varies, and between which values."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.config import Config, load_values
from longstride.errors import UserError, reason
from longstride.setting_groups.former import refuse_removed

EXAMPLE = '--sweep "learning_rate_actor=1e-4..3e-3 log"'

_OF_ALL_TRIALS = (
    *("seed", "run_directory", "checkpoints_kept", "evaluate_every", "evaluation_episodes", "preset", "time_budget"),
    *("simulator", "simulator_options", "scenario", "event_log", "log_columns", "time_format", "time_zone"),
    *("object_type", "skip_bad_rows", "keep_duplicates", "log_arrivals", "classes"),
    *(name for name in Config.model_fields if name.startswith("log_max_")),
)
"""Settings that all trials have in common: their scores would not compare otherwise."""

_RANGE = re.compile(r"(?P<low>.+?) *\.\. *(?P<high>\S+)(?P<words>( +\S+)*)")


@dataclass(frozen=True)
class Dimension:
    """A setting that is varied: over ``choices``, or from ``low`` to ``high`` where there are none."""

    name: str  # lower-case name of the setting
    text: str  # the values as they were written
    choices: tuple[Any, ...] = ()
    low: float = 0.0  # an int for a whole number
    high: float = 0.0  # included
    log: bool = False  # whether the logarithm of the value is uniform, not the value

    @property
    def whole(self) -> bool:
        """Whether the values of the range are whole numbers."""
        return isinstance(self.low, int)


def read_space(texts: Sequence[str], file: Path | None) -> list[Dimension]:
    """Return the dimensions of ``NAME=VALUES`` texts and of a TOML file; a text takes the place of a line of the file.

    Raises:
        UserError: the file cannot be read, a name is unknown, or values are not right.
    """
    found = {dimension.name: dimension for dimension in (_read_file(file) if file else [])}
    of_flags = [_read_text(text) for text in texts]
    names = [dimension.name for dimension in of_flags]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--sweep names {name} twice; give all of its values in one.")
    found |= {dimension.name: dimension for dimension in of_flags}
    if not found:
        raise UserError(f"--mode sweep needs the settings to vary: {EXAMPLE}, or --sweep-file FILE.")
    return list(found.values())


def _read_text(text: str) -> Dimension:
    name, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise UserError(f"--sweep: {text!r} is not NAME=VALUES, such as {EXAMPLE}.")
    return _dimension(name.strip().lower(), values.strip(), "--sweep")


def _read_file(file: Path) -> list[Dimension]:
    """Return the dimensions of a file with lines ``name = "LOW..HIGH"`` or ``name = [VALUE, VALUE]``."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Cannot read --sweep-file {file}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--sweep-file {file} is not valid TOML: {reason(error)}.") from None
    return [_dimension(name.lower(), _as_text(name, value, file), str(file)) for name, value in content.items()]


def _as_text(name: str, value: Any, file: Path) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and all(isinstance(each, bool | int | float | str) for each in value):
        return ",".join(str(each) for each in value)
    raise UserError(f'{file}: {name} should be text, such as "1e-4..3e-3 log", or a list of values.')


def _dimension(name: str, text: str, where: str) -> Dimension:
    if name in _OF_ALL_TRIALS:
        raise UserError(f"{where}: {name} is the same for all trials; give it as a flag of its own.")
    refuse_removed(name, f"{where}: {name}")
    match = _RANGE.fullmatch(text)
    if match is None:
        return _choices(name, text, where)
    words = match["words"].split()
    if words not in ([], ["log"]):
        raise UserError(f"{where}: {name}: {' '.join(words)!r} after the range is not known; only log is.")
    kind = Config.model_fields[name].annotation if name in Config.model_fields else float
    if kind not in (int, float):
        raise UserError(f"{where}: {name} has no range; list its values with commas.")
    low, high = (_value(name, match[end], where) for end in ("low", "high"))
    if low >= high:
        raise UserError(f"{where}: {name}: {low} .. {high} is empty; the smaller number comes first.")
    if words and low <= 0:
        raise UserError(f"{where}: {name}: a logarithm needs numbers above 0, and {low} is not.")
    return Dimension(name, text, low=low, high=high, log=bool(words))


def _choices(name: str, text: str, where: str) -> Dimension:
    values = tuple(_value(name, part.strip(), where) for part in text.split(","))
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) < 2:
        raise UserError(f"{where}: {name} has one value, {text}; give a range LOW..HIGH or several with commas.")
    return Dimension(name, text, choices=distinct)


def _value(name: str, text: str, where: str) -> Any:
    """Return a value of a setting as Config reads it from text."""
    return getattr(load_values({name: text}, where), name)
