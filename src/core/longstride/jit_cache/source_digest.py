"""Digests of source files: our whole package, and a user's modules with all that they import."""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np

_PACKAGE = Path(__file__).resolve().parents[1]
_STANDARD = [Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "platstdlib")]
_LIBRARIES = [Path(str(module.__file__)).resolve().parent for module in (np, numba)]
_INSTALLED = "site-packages", "dist-packages"


class UnhashableError(Exception):
    """A kernel depends on something whose changes cannot be detected."""


@cache
def package_digest() -> str:
    """Return the digest of our own sources."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def is_trusted(module: ModuleType) -> bool:
    """Return whether a module belongs to Python, NumPy or Numba, whose versions are part of every fingerprint."""
    path = _file_of(module)
    return module.__name__ in sys.builtin_module_names if path is None else _is_trusted_file(path)


@cache
def _is_trusted_file(path: Path) -> bool:
    return _is_in(_LIBRARIES, path) or (_is_in(_STANDARD, path) and not _is_installed(path))


@cache
def is_of_a_user(path: Path) -> bool:
    """Return whether a file belongs neither to this package nor to Python nor to an installed package."""
    return not (_is_in([_PACKAGE, *_STANDARD], path) or _is_installed(path))


def source_tokens(names: Sequence[str]) -> Iterator[str]:
    """Yield a token for each file of some modules and of those that they import.

    Importing a module may have effects (such as an extension of Numba), so files count whole. Of an installed package
    only the file itself counts, by its size and time.

    Raises:
        UnhashableError: a module came from no file.
    """
    for name in names:
        if _file_of(sys.modules.get(name)) is None:
            raise UnhashableError(f"code of {name}, which is no file")
    modules: dict[str, ModuleType | None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in modules:
            continue
        module = modules[name] = sys.modules.get(name)
        path = _file_of(module)
        if module and path and is_of_a_user(path):
            waiting += _imports_of(module)
    for name in sorted(modules):
        if stamp := _stamp(modules[name]):
            yield f"{name} {stamp}"


def _imports_of(module: ModuleType) -> Iterator[str]:
    """Yield the modules of a module's globals by name."""
    for value in list(vars(module).values()):
        name: Any = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            yield name


def _stamp(module: ModuleType | None) -> str:
    path = _file_of(module)
    if module is None or path is None or is_trusted(module) or path.is_relative_to(_PACKAGE):
        return ""  # nothing to read, or part of every fingerprint
    try:
        if _is_installed(path):
            stat = path.stat()
            return f"{path} {stat.st_size} {stat.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UnhashableError(f"{path}, which cannot be read") from error


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    return _resolved(file) if os.path.isabs(file) else Path(file).resolve()


@cache
def _resolved(file: str) -> Path:
    return Path(file).resolve()


def _is_installed(path: Path) -> bool:
    return any(name in path.parts for name in _INSTALLED)


def _is_in(folders: Sequence[Path], path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
