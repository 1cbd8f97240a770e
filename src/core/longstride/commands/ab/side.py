"""The two sides of a comparison: flags of their own, beside the flags that both have."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longstride.config import Config
from longstride.errors import UserError
from longstride.setting_flags import Parser, add_flags, flags_of
from longstride.settings import load_settings

EPISODES = 3
"""Iterations of each run by default: one to warm up, two that count."""

OF_BOTH = ("seed", "run_directory")
"""Settings that a comparison gives its runs itself."""


@dataclass(frozen=True)
class Side:
    """One of the two settings that are compared."""

    name: Literal["a", "b"]
    text: str  # flags of this side alone, as they were given
    file: Path | None  # hyperparameters file; None for the defaults alone
    options: dict[str, Any]  # lower-case names with the values of the command line, those of both sides included
    config: Config

    def arguments(self, mode: str, directory: Path, **more: str) -> list[str]:
        """Return the arguments of a command with these settings, or ``more`` values of Config in their place."""
        file = ["--hyperparameters", str(self.file)] if self.file else []
        return ["--mode", mode, *file, *flags_of({**self.options, **more, "run_directory": str(directory)})]


def read_side(name: Literal["a", "b"], text: str, file: Path | None, common: Mapping[str, Any]) -> Side:
    """Read and check the flags of a side, quoted as in a shell, beside the file and the flags that both sides have.

    Raises:
        UserError: a flag is unknown or not for a side, or its value is wrong.
    """
    try:
        own = vars(_parser().parse_known_flags(_words(text)))
        file = own.pop("hyperparameters") or file
        for flag in OF_BOTH:
            if flag in own:
                raise UserError(
                    f"--{flag.replace('_', '-')} is the same for both sides; give it outside of the quotes."
                )
        options = _merged(common, own)
        settings = load_settings(file, options)
        config = settings.config
        has_length = bool(config.preset or config.time_budget or config.total_steps)
        if not (has_length or settings.is_chosen("training_episodes")):
            options["training_episodes"] = str(EPISODES)
            config = config.model_copy(update={"training_episodes": EPISODES})
        if not settings.is_chosen("grow_rollouts"):  # iterations of one size are compared
            options["grow_rollouts"] = False
            config = config.model_copy(update={"grow_rollouts": False})
    except UserError as error:
        raise UserError(f"--{name}: {error}") from None
    if config.training_episodes < 2 and not has_length:
        raise UserError(
            "--mode ab needs --training-episodes 2 or more: the first iteration is warm-up and not counted."
        )
    return Side(name, text, file, options, config)


def differing(a: Config, b: Config) -> dict[str, list[Any]]:
    """Return the settings in which two Configs differ: UPPERCASE name -> the two values."""
    both = zip(a.model_dump().items(), b.model_dump().values(), strict=True)
    return {name.upper(): [first, second] for (name, first), second in both if first != second}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text!r} cannot be split into flags: {str(error).lower()}.") from None


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of both with a side's in their place; options of the simulator one by one."""
    merged = {**common, **own}
    if "simulator_options" in merged:
        merged["simulator_options"] = {**common.get("simulator_options", {}), **own.get("simulator_options", {})}
    return merged


def _parser() -> Parser:
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--hyperparameters", type=Path)
    add_flags(parser)
    return parser
