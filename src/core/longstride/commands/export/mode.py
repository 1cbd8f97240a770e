"""The mode ``export`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.export.formats import FORMATS
from longstride.commands.mode import OF_SIMULATOR, Call, Mode, add_checkpoint

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_checkpoint(group)
    group.add_argument("--output", metavar="DIR", help="the folder to write (default: export in the run)")
    group.add_argument("--format", nargs="+", choices=FORMATS, help="what to write (default: all)")


def _run(call: Call) -> int:
    from longstride.commands.export.command import run_export

    own = call.own
    return run_export(call.settings, own["checkpoint"], own["output"], own["format"], call.console, call.say)


EXPORT = Mode("export", "Export a policy: safetensors, ONNX, C.", _add_flags, _run, settings=OF_SIMULATOR | {"seed"})
