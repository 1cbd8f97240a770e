"""A flag for each setting, and a parser whose errors are sentences."""

import argparse
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, get_args

from pydantic import JsonValue
from pydantic.fields import FieldInfo

from longstride.config import GROUPS, flag_of
from longstride.errors import UserError, suggestion
from longstride.setting_groups.former import NEW_NAMES, refuse_removed

_END_OF_SENTENCE = re.compile(r"\.(?: |$)")


def add_flags(parser: argparse.ArgumentParser, shown: Collection[str] | None = None) -> None:
    """Add one flag for each setting; values stay text until pydantic reads them.

    Args:
        parser: gets a group of flags for each group of settings.
        shown: settings that ``--help`` lists; None for all.
    """
    for title, settings in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, field in settings.model_fields.items():
            is_shown = shown is None or name in shown
            _add_flag(group, name, field, _help(field) if is_shown else argparse.SUPPRESS)
    for name in NEW_NAMES:
        parser.add_argument(flag_of(name), default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _add_flag(group: Any, name: str, field: FieldInfo, text: str) -> None:
    """Add the flag of one setting."""
    if name == "simulator_options":
        flags = ("--simulator-option", flag_of(name))
        group.add_argument(
            *flags, dest=name, action=_AddOption, default=argparse.SUPPRESS, metavar="NAME=VALUE", help=text
        )
    elif name in _SEVERAL:
        options: dict[str, Any] = {"action": _Several, "nargs": "+", "metavar": _SEVERAL[name]}
        group.add_argument(flag_of(name), default=argparse.SUPPRESS, help=text, **options)
    elif field.annotation is bool:
        action = argparse.BooleanOptionalAction
        group.add_argument(flag_of(name), action=action, default=argparse.SUPPRESS, help=text)
    else:
        choices = get_args(field.annotation) if field.annotation not in (int, float, str) else ()
        metavar = "|".join(filter(None, choices)) or getattr(field.annotation, "__name__", "value").upper()
        group.add_argument(flag_of(name), default=argparse.SUPPRESS, metavar=metavar, help=text)


def _help(field: FieldInfo) -> str:
    """Return the first sentence about a setting, and its default; argparse reads % as a format."""
    sentence = _END_OF_SENTENCE.split(meaning(field), 1)[0]
    default = json.dumps(field.get_default(call_default_factory=True))
    return f"{sentence} (default: {default})".replace("%", "%%")


def meaning(field: FieldInfo) -> str:
    """Return the text about a setting as one line."""
    return " ".join((field.description or "").split())


def flags_of(options: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that :func:`add_flags` reads as these values of lower-case names."""
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag_of(name) if value else flag_of(f"no_{name}"))
        elif isinstance(value, dict):
            for option, setting in value.items():
                words += ["--simulator-option", f"{option}={json.dumps(setting)}"]
        else:
            separate = not str(value).startswith("-")  # else it looks like a flag
            words += [flag_of(name), str(value)] if separate else [f"{flag_of(name)}={value}"]
    return words


class _AddOption(argparse.Action):
    """Collects the NAME=VALUE of a flag that may be repeated in one dictionary."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        name, equals, value = values.partition("=")
        if not name or not equals:
            raise argparse.ArgumentError(self, f"{values!r} is not NAME=VALUE")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), name: _scalar(value)})


_SEVERAL = {"run_directory": "DIR", "scenario": "STR"}
"""Flags that take several values in some mode."""

FURTHER = {"run_directory": "further_runs", "scenario": "further_scenarios"}
"""Where the values of such a flag behind its first one are found."""


class _Several(argparse.Action):
    """Takes the first of some values as the setting, and the others as ``further_...``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values[0])
        if values[1:]:
            setattr(namespace, FURTHER[self.dest], values[1:])


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence with the nearest valid flag."""

    def error(self, message: str) -> NoReturn:
        """Raise a UserError in place of printing the usage and exiting."""
        raise UserError(message[0].upper() + message[1:] + ("" if message.endswith(".") else "."))

    def parse_known_flags(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse all arguments.

        Raises:
            UserError: an unknown flag, with the nearest known one; a removed one; or a flag without its value.
        """
        namespace, unknown = self.parse_known_args(arguments)
        if unknown:
            raise UserError(self.not_known(unknown[0]))
        return namespace

    def not_known(self, word: str, otherwise: str = "see --help") -> str:
        """Return the sentence about a word that is no flag: the nearest one, or what helps otherwise.

        Raises:
            UserError: it was a flag in an earlier version.
        """
        refuse_removed(word.split("=")[0].removeprefix("--").removeprefix("no-"), word)
        return f"Unknown argument {word}{suggestion(word.split('=')[0], self.flags(), otherwise)}"

    def flags(self) -> list[str]:
        """Return all flags."""
        return [option for action in self._actions for option in action.option_strings]


def _scalar(text: str) -> JsonValue:
    """Read a JSON number, string, true, false or null; anything else is the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)) else value
