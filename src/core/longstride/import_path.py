"""Where Python looks for modules: never in the working folder before anything else.

``python -m``, ``python -c`` and an empty entry of PYTHONPATH put the working folder first. A ``json.py`` or
``matplotlib.py`` that lies there would then run in place of the real module.
"""

import os
import sys

_SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NEEDED = (_SOURCES, os.path.dirname(os.path.abspath(os.__file__)))
_INSTALLED = ("site-packages", "dist-packages")


def leave_out_working_folder() -> None:
    """Remove the working folder from ``sys.path``, and keep Python programs that this process starts from adding it.

    A folder that PYTHONPATH names by its whole path moves to the end instead. The commands call this when they start;
    the Python API leaves the path of its program alone.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    here, entries = _real(os.curdir), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here in map(_real, _NEEDED) or os.path.basename(here) in _INSTALLED:
        return
    entries = [os.path.abspath(entry) for entry in entries if os.path.isabs(entry) or _real(entry or os.curdir) != here]
    if "PYTHONPATH" in os.environ:  # for the programs that this process starts
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    named = here in map(_real, entries)
    sys.path[:] = [entry for entry in sys.path if _real(entry or os.curdir) != here] + ([here] if named else [])


def search_working_folder_last() -> None:
    """Let modules of the working folder be imported, if no other folder has a module of that name."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def child_environment() -> dict[str, str]:
    """Return the environment of a Python program that finds this package, and not the working folder."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = dict.fromkeys([_SOURCES, *filter(os.path.isabs, entries)])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the working folder is gone
        return path
