"""A file that makes a shell complete the modes and flags of the command."""

from collections.abc import Sequence

from longstride.commands.mode import Mode
from longstride.errors import UserError
from longstride.setting_flags import Parser, add_flags


def completion_of(modes: Sequence[Mode], shell: str) -> str:
    """Return what makes a shell complete modes and flags.

    Raises:
        UserError: the package shtab is missing, or does not know the shell.
    """
    try:
        import shtab
    except ImportError:
        raise UserError('--print-completion needs the package shtab: pip install "longstride[completion]".') from None
    if shell not in shtab.SUPPORTED_SHELLS:
        raise UserError(f"--print-completion {shell}: it knows {', '.join(shtab.SUPPORTED_SHELLS)}.")
    whole = Parser(prog="longstride", allow_abbrev=False)
    flags = whole.add_subparsers(dest="mode", parser_class=Parser)
    for mode in modes:
        parser = flags.add_parser(mode.name, help=mode.purpose, allow_abbrev=False)
        mode.add_flags(parser.add_argument_group(mode.name))
        add_flags(parser, mode.settings)
    script: str = shtab.complete(whole, shell)
    return script
