"""The settings of a command on their way to a run: values, their origins, notes, and the command that repeats them."""

import runpy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from longstride.config import Config, flag_of, validated
from longstride.errors import UserError, reason, this_command
from longstride.escaping import shell_command
from longstride.setting_flags import flags_of
from longstride.setting_groups.former import renamed, sentences_about_names


@dataclass(frozen=True)
class Settings:
    """A Config, the origin of each of its values, and sentences for people about how it came to be.

    Attributes:
        config: values.
        sources: name -> ``"default"``, ``"file"`` or ``"flag"``; ``"preset"``, ``"prior"``, ``"actions"``,
            ``"bonus"``, ``"time_budget"`` or ``"simulation"`` where it follows from others; ``"run"`` where it is a
            run's and its origin is not known; ``"changed"`` in settings that are only tried out.
        notes: sentences that nobody has read yet.
        is_complete: whether what follows from other settings is in the values already, as in those of a finished run.
        is_resumed: whether they are those of a run that goes on, which keeps what was the default when it began.
    """

    config: Config
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_complete: bool = False
    is_resumed: bool = False

    def changed(self, values: Mapping[str, Any], source: str, notes: Iterable[str] = ()) -> "Settings":
        """Return settings with other values, which come from a source, and with more notes."""
        config = self.config.model_copy(update=dict(values)) if values else self.config
        sources = {**self.sources, **dict.fromkeys(values, source)}
        return replace(self, config=config, sources=sources, notes=(*self.notes, *notes))

    def told(self, say: Callable[[str], None]) -> "Settings":
        """Say the notes, and return the settings without them."""
        for note in self.notes:
            say(note)
        return replace(self, notes=())

    def is_flag(self, name: str) -> bool:
        """Return whether a flag gave a value."""
        return self.sources.get(name) == "flag"

    def flags(self) -> dict[str, Any]:
        """Return the values that flags gave, other than the run directory."""
        return {n: getattr(self.config, n) for n in self.sources if self.is_flag(n) and n != "run_directory"}

    def is_chosen(self, name: str) -> bool:
        """Return whether a user chose a value: by flag, or in a file by a value other than the default.

        hyperparameters.py lists every name, so a default in it says nothing.
        """
        changed = getattr(self.config, name) != Config.model_fields[name].default
        return self.is_flag(name) or (self.sources.get(name) == "file" and changed)


def load_settings(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Merge defaults, a hyperparameters file and flags (text or bool by lower-case name).

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """
    values: dict[str, Any] = {}
    notes = sentences_about_names(flags, flag_of)
    if file is not None:
        values = {name.lower(): value for name, value in _read_hyperparameters(file).items()}
        notes += [f"{file}: {sentence}" for sentence in sentences_about_names(values, str.upper)]
        validated(values, {name: f"{file}: {name.upper()}" for name in values})
    values, flags = renamed(values), renamed(flags)
    config = validated({**values, **flags}, {name: flag_of(name) for name in Config.model_fields})
    sources = {
        name: "flag" if name in flags else "file" if name in values else "default" for name in Config.model_fields
    }
    return Settings(config, sources, tuple(notes))


def train_command(settings: Settings, directory: Path, file: Path | None, processes: int = 1) -> str:
    """Return the command that trains a run, as a user types it; further flags may follow.

    The settings are those before presets changed them; the file is what the user named, None without one. Several
    processes of a host are started by torchrun.
    """
    words = flags_of({"run_directory": str(directory), **settings.flags()})
    named = ["--hyperparameters", str(file)] if file else []
    return f"{this_command(processes)} --mode train {shell_command([*words, *named])}"


def repeat_command(settings: Settings, directory: Path) -> str:
    """Return the command that trains a run again into another directory, without the file that it had."""
    config, sources = settings.config, settings.sources
    given = {n for n, source in sources.items() if source in ("flag", "file") and n in Config.model_fields}
    given -= {"run_directory"}
    defaults = Config()
    values = {n: v for n in given if (v := getattr(config, n)) != getattr(defaults, n) or settings.is_flag(n)}
    words = flags_of({"run_directory": str(directory), **{name: values[name] for name in sorted(values)}})
    return f"{this_command()} --mode train {shell_command(words)}"


def _read_hyperparameters(file: Path) -> dict[str, Any]:
    """Run a hyperparameters file, which is the user's own Python, and return its UPPERCASE names."""
    if not file.is_file():
        raise UserError(f"There is no hyperparameters file {file}.")
    try:
        names = runpy.run_path(str(file))
    except Exception as error:
        raise UserError(f"{file} does not run as Python: {type(error).__name__}: {reason(error)}.") from None
    return {name: value for name, value in names.items() if name.isupper() and not name.startswith("_")}
