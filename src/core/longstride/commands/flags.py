"""Reading the command line: which mode it names, and the flags of that mode."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from longstride.commands.mode import Mode
from longstride.config import Config, flag_of
from longstride.errors import UserError, suggestion, this_command
from longstride.setting_flags import FURTHER, Parser, add_flags
from longstride.setting_groups.former import NEW_NAMES

DEFAULT = "train"
"""The mode of a command line that names none."""


def make_parser(mode: Mode) -> Parser:
    """Return the parser of the flags that go with a mode."""
    name = f"{this_command()} {mode.name}"
    parser = Parser(prog=name, usage=f"{name} [flags]", description=mode.purpose, allow_abbrev=False)
    parser.add_argument(
        "--hyperparameters", type=Path, metavar="FILE", help="settings file, instead of hyperparameters.py"
    )
    mode.add_flags(parser.add_argument_group(f"flags of {mode.name}"))
    add_flags(parser, mode.settings)
    return parser


def overview(modes: Sequence[Mode]) -> str:
    """Return the help of a command line that names no mode."""
    width = max(len(mode.name) for mode in modes)
    lines = [f"  {mode.name:{width}}  {mode.purpose}" for mode in modes]
    command = this_command()
    return "\n".join(
        [
            f"usage: {command} MODE [flags]   or   {command} --mode MODE [flags]",
            "",
            "Train and evaluate policies on long, single-stream simulations.",
            "",
            *lines,
            "",
            f"{command} MODE --help lists the flags of a mode, each with its meaning and default.",
            f"{command} --version prints the version, --print-completion SHELL a file for bash, zsh or tcsh.",
        ]
    )


def asks_for_overview(arguments: Sequence[str], modes: Sequence[Mode]) -> bool:
    """Return whether a command line asks for help and names no mode."""
    return any(word in ("-h", "--help") for word in arguments) and find_mode(arguments, modes)[0] is None


def find_mode(arguments: Sequence[str], modes: Sequence[Mode]) -> tuple[Mode | None, list[str]]:
    """Return the mode that a command line names, None if it names none, and the other words.

    Raises:
        UserError: there is no such mode, or two are named.
    """
    names = {mode.name: mode for mode in modes}
    word = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if word and word not in names:
        raise UserError(f"There is no mode {word}{suggestion(word, list(names), 'see --help')}")
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--mode", choices=list(names))
    options, rest = parser.parse_known_args(arguments[1:] if word else arguments)
    if word and options.mode not in (None, word):
        raise UserError(f"{word} and --mode {options.mode} are two modes; name one of them.")
    name = word or options.mode
    return names[name] if name else None, rest


def parse_flags(mode: Mode, arguments: Sequence[str], modes: Sequence[Mode]) -> dict[str, Any]:
    """Return the values of the flags of a command line: all of the mode's own, and of the settings those that it names.

    Raises:
        UserError: a flag is unknown, goes with other modes, or lacks its value.
    """
    parser = make_parser(mode)
    namespace, unknown = parser.parse_known_args(_joined(arguments))
    if unknown:
        raise UserError(_not_known(unknown[0], mode, parser, modes))
    values = vars(namespace)
    for setting, further in FURTHER.items():
        if further in values and mode.several != setting:
            flag, others = flag_of(setting), [each.name for each in modes if each.several == setting]
            sentence = f"{flag} takes several only with --mode {' or '.join(others)}."
            raise UserError(f"Unknown argument {values[further][0]}; {sentence}")
    return values


def read_flags(arguments: Sequence[str], modes: Sequence[Mode]) -> tuple[Mode, dict[str, Any]]:
    """Return the mode of a command line and the values of its flags.

    Raises:
        UserError: as for :func:`find_mode` and :func:`parse_flags`.
    """
    found, words = find_mode(arguments, modes)
    mode = found or next(mode for mode in modes if mode.name == DEFAULT)
    return mode, parse_flags(mode, words, modes)


def own_flags(values: dict[str, Any]) -> dict[str, Any]:
    """Take what is no setting out of the values of flags, and return it."""
    settings = {*Config.model_fields, *NEW_NAMES}
    return {name: values.pop(name) for name in list(values) if name not in settings}


def without_effect(mode: Mode, options: Iterable[str]) -> str:
    """Return a sentence about the settings that a command line names and its mode does not read; "" without any."""
    unread = [flag_of(name) for name in options if name not in mode.settings]
    verb = "has" if len(unread) == 1 else "have"
    return f"{' and '.join(unread)} {verb} no effect in --mode {mode.name}." if unread else ""


def _not_known(word: str, mode: Mode, parser: Parser, modes: Sequence[Mode]) -> str:
    """Return the sentence about a word that a mode does not know."""
    flag = word.split("=")[0]
    others = [each.name for each in modes if flag in make_parser(each).flags()]
    if others:
        return f"{flag} does not go with --mode {mode.name}. It goes with {' and '.join(others)}."
    return parser.not_known(word, f"see --mode {mode.name} --help")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return arguments with ``--a X`` as ``--a=X``, and b alike: X is flags itself, which argparse would take apart."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--a", "--b") and argument not in ("--a", "--b"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined
