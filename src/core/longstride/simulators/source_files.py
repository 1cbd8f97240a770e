"""Which source a simulator's name would run, and its digest, found out without running any of it."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from longstride.jit_cache.source_digest import is_of_a_user

SOURCE_SHA256 = "source_sha256"
"""Key in a checkpoint's source of the digest of a user's simulator: its file and the local files that it imports."""


SOURCE_FILE = "source_file"
"""Key in a checkpoint's source of the path of that file."""

PROGRAM = "__main__"
"""Module of a program, or of a notebook's cells."""


def is_of_a_program(name: str) -> bool:
    """Return whether a simulator's name is of a class that a program or a notebook defines."""
    return name.rpartition(":")[0] == PROGRAM


def recorded_source(name: str) -> dict[str, str]:
    """Return what a checkpoint keeps of a simulator's source by its name: digest and path, empty without a file."""
    if is_of_a_program(name):
        program = getattr(sys.modules.get(PROGRAM), "__file__", None)
        name = f"{program}:{name.rpartition(':')[2]}" if program else ""
    file, digest = main_file(name), source_sha256(name)
    return {SOURCE_SHA256: digest, SOURCE_FILE: str(file)} if digest else {}


def located(source: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Find the simulator of a checkpoint's source by the path of its file, if its name finds another one or none here.

    Returns:
        The source, by its path if the file there is unchanged, and a sentence about it; empty if the name finds it.
    """
    name, file, digest = (str(source.get(key, "")) for key in ("simulator", SOURCE_FILE, SOURCE_SHA256))
    module, _, own_name = name.rpartition(":")
    found = {**source, "simulator": f"{file}:{own_name}"}
    is_a_file = module.endswith(".py") or (module.isidentifier() and not is_of_a_program(name))
    if not (file and digest and is_a_file) or source_sha256(name) == digest:
        return dict(source), ""
    if source_sha256(found["simulator"]) != digest:
        return dict(source), ""
    here = main_file(name)
    other = f"; {here} is another file" if here and str(here) != file else ""
    return found, f"The simulator is that of {file}, which the run was trained on{other}."


def source_change(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Return a sentence if a simulator's source is not that of a checkpoint; empty if it is, or if one is unknown."""
    before, now = recorded.get(SOURCE_SHA256), present.get(SOURCE_SHA256)
    if not before or not now or before == now:
        return ""
    file, trained = present.get(SOURCE_FILE), recorded.get(SOURCE_FILE)
    if trained in (None, file):
        return (
            f"{file} or a module that it imports has changed since the run was trained; what follows is of the new one."
        )
    return f"The run was trained on {trained}; what follows is of {file}, which is not the same."


def main_file(name: str) -> Path | None:
    """Return the file that a simulator's name runs: ``file.py:Class``, ``module:Class`` or ``gymnasium:module:Id``.

    Nothing is imported. None if there is no such file, or if the name has no module, as ``gymnasium:Id``.
    """
    module = name.removeprefix("gymnasium:").rpartition(":")[0]
    if module == PROGRAM:
        return None
    if module.endswith(".py"):
        with suppress(OSError, ValueError):
            return Path(module).resolve() if Path(module).is_file() else None
        return None
    chain = _files_of(module, [str(Path.cwd())]) if module else []
    return chain[-1][1] if chain else None


def source_sha256(name: str) -> str:
    """Return the digest of a simulator's file and of the local files that import statements in them name.

    Neither paths nor the name of the first module count, so a copy in another folder has the same digest. Installed
    packages, data files and modules that are imported by a computed name do not count. It is empty without a file.
    """
    file = main_file(name)
    if file is None:
        return ""
    module = name.removeprefix("gymnasium:").rpartition(":")[0]
    package = "" if module.endswith(".py") else module.rpartition(".")[0]
    folders = [str(file.parent if module.endswith(".py") else Path.cwd())]
    top = _top_folder(module, file)
    files_of = cache(lambda imported: _files_of(imported, folders))  # files of a package import much the same
    found: dict[str, Path] = {"": file, **dict(_files_of(package, folders) if package else [])}
    waiting = list(found.items())
    while waiting:
        of, path = waiting.pop()
        content = _read(path) if path.suffix == ".py" else b""
        for imported in _imports_in(content, package if of == "" else _package_of(of, path)):
            for each, each_file in files_of(imported):
                if each not in found and each_file != file and _is_local(each_file, top):
                    found[each] = each_file
                    waiting.append((each, each_file))
    digest = hashlib.sha256()
    for each, path in sorted(found.items()):
        content = _read(path)
        digest.update(f"{each} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _files_of(module: str, folders: list[str]) -> list[tuple[str, Path]]:
    """Return the files that importing a module runs, those of its packages first; none if there is no such module."""
    files: list[tuple[str, Path]] = []
    name, within = "", list[str]()
    for part in module.split("."):
        if not part.isidentifier() or (name and not within):
            return []
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, within) if within else _top_spec(name, folders)
        if spec is None:
            return []
        if spec.origin and spec.has_location:
            files.append((name, Path(spec.origin).resolve()))
        within = list(spec.submodule_search_locations or [])
    return files


def _top_spec(name: str, folders: list[str]) -> importlib.machinery.ModuleSpec | None:
    if name in sys.builtin_module_names:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ValueError, ImportError):  # a module without a specification, such as that of the program itself
        spec = None
    return spec or PathFinder.find_spec(name, folders)


@lru_cache(maxsize=1024)
def _imports_in(content: bytes, package: str) -> tuple[str, ...]:
    """Return the modules that the import statements of a file may import, relative ones by their whole names."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(dict.fromkeys(_imported(tree, package)))


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".") if node.level else []
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def _top_folder(module: str, file: Path) -> Path | None:
    """Return the folder of the package that an installed simulator is in: all of its files count."""
    if module.endswith(".py") or is_of_a_user(file):
        return None
    levels = module.count(".") + (file.name == "__init__.py")
    return file.parents[levels - 1] if levels else None


def _is_local(path: Path, top: Path | None) -> bool:
    return is_of_a_user(path) or (top is not None and path.is_relative_to(top))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
