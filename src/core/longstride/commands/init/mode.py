"""The mode ``init``: write the settings as a file to edit."""

from pathlib import Path
from typing import TYPE_CHECKING

from longstride.commands.init.text import settings_text
from longstride.commands.mode import Call, Mode, always
from longstride.config import Config
from longstride.errors import UserError, this_command
from longstride.escaping import shell_command

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group

_FILE = "hyperparameters.py"


def _add_flags(group: "Group") -> None:
    group.add_argument(
        "--output", type=Path, default=Path(_FILE), metavar="FILE", help=f"the file to write (default: {_FILE})"
    )


def _run(call: Call) -> int:
    """Write the file, which must be new, and say what reads it."""
    file: Path = call.own["output"]
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(settings_text(call.config))
    except FileExistsError:
        raise UserError(f"{file} already exists; choose another file with --output FILE, or move it away.") from None
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}.") from None
    call.say(f"Written to {file}: {len(Config.model_fields)} settings, each with its meaning. Edit it, then:")
    named = [] if file == Path(_FILE) else ["--hyperparameters", str(file)]
    call.say(f"  {this_command()} {shell_command(['train', *named])}")
    return 0


INIT = Mode(
    "init", "Write hyperparameters.py, a file with all settings for you to edit.", _add_flags, _run, has_a_result=always
)
