"""Checkpoints: tensors in safetensors, metadata in JSON.

A checkpoint is a file such as ``iteration-00000012.json`` and the tensor file that it names. It counts from the moment
that the JSON file, written last, is renamed into place. The JSON file holds the SHA-256 of the tensor file and of
itself. So cut or changed files are found, and the checkpoint before is loaded.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from longstride.errors import UserError, one_line
from longstride.escaping import json_line
from longstride.own_files.opening import make_own_folder
from longstride.simulators.makers import present_name
from longstride.text import Say
from longstride.training.run_directory.directory import (
    RunDirectory,
    checkpoint_files,
    checkpoint_name,
    is_of_earlier_version,
)
from longstride.training.run_directory.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

FORMAT = "longstride-checkpoint/3"
MEAN_OF_LATE = "mean_of_late_policies"
"""Metadata of a checkpoint whose actor is no single policy of the run; its iteration is that of the newest one."""

_OF_A_RUN = ("iteration", "best", "simulator", "source", "policy", "grad_scaler")
"""Metadata that every checkpoint of a training run has."""


def save_checkpoint(folder: Path, tensors: "dict[str, Tensor]", metadata: dict[str, Any], kept: int = 1) -> None:
    """Write a checkpoint of tensors on any device and JSON values, ``"iteration"`` among them.

    Earlier checkpoints count until this one is complete; then ``kept`` stay, this one included.

    Raises:
        OSError: the disk is full or cannot be written; the earlier checkpoints are unchanged.
    """
    make_own_folder(folder.parent)  # but never the run directory, which may have been moved
    make_own_folder(folder)
    content = safetensors.numpy.save({name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()})
    digest = hashlib.sha256(content).hexdigest()
    name = checkpoint_name(metadata["iteration"])
    file = f"{name}-{digest[:8]}.safetensors"  # never the name of other tensors, which may count now
    try:
        write_atomically(folder / file, content)
        facts = json_line({"format": FORMAT, **metadata, "tensors": file, "tensors_sha256": digest})
        write_atomically(folder / f"{name}.json", seal(json.loads(facts)))
    except OSError:
        with suppress(OSError):
            _remove_others(folder, checkpoint_files(folder))
        raise
    _remove_others(folder, checkpoint_files(folder, metadata["iteration"] + 1)[:kept])


def load_run(path: Path, say: Say, before: int | None = None) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Read a checkpoint of a training run, as :func:`load_checkpoint` does.

    Raises:
        UserError: there is no checkpoint, or none that is intact and complete.
    """
    tensors, metadata = load_checkpoint(path, say, before)
    missing = [name for name in _OF_A_RUN if name not in metadata]
    if missing:
        raise UserError(f"The checkpoint in {path} is damaged: it lacks {', '.join(missing)}.")
    return tensors, metadata


def load_checkpoint(
    path: Path, say: Say = lambda line: None, before: int | None = None
) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Read the newest intact checkpoint, or the newest from before an iteration; say which newer ones are damaged.

    The path is a checkpoint folder, or a run directory, whose last checkpoint is read.

    Raises:
        UserError: there is no checkpoint, none is intact, or they are of another version.
    """
    from safetensors.torch import load  # here, because policies are loaded without torch

    return _load(path, say, before, load)


def load_arrays(path: Path, say: Say) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the newest intact checkpoint as :func:`load_checkpoint` does, but without torch."""
    return _load(path, say, None, safetensors.numpy.load)


def _load(
    path: Path, say: Say, before: int | None, parse: Callable[[bytes], dict[str, T]]
) -> tuple[dict[str, T], dict[str, Any]]:
    folder = checkpoint_folder(path)
    damaged: dict[Path, str] = {}
    # Listed anew each time: a run that is still training may have replaced the files.
    while left := [file for file in checkpoint_files(folder, before) if file not in damaged]:
        try:
            tensors, metadata = _read(left[0], parse)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            damaged[left[0]] = (isinstance(error, OSError) and error.strerror) or one_line(error)
            continue
        for file, reason in damaged.items():
            say(f"The checkpoint {file} is damaged ({reason}); that of iteration {metadata['iteration']} is used.")
        return tensors, metadata
    file, reason = next(iter(damaged.items()))
    earlier = f", and so are the {len(damaged) - 1} before it" if len(damaged) > 1 else ""
    raise UserError(f"The checkpoint {file} is damaged ({reason}){earlier}: train again, or name another checkpoint.")


def seal(metadata: dict[str, Any]) -> bytes:
    """Return metadata as JSON that holds its own digest."""
    digest = hashlib.sha256(json.dumps(metadata).encode()).hexdigest()
    return json.dumps({**metadata, "sha256": digest}).encode() + b"\n"


def unseal(content: bytes) -> dict[str, Any]:
    """Return the metadata that :func:`seal` wrote; sealing it again must give the same bytes.

    Raises:
        ValueError: the content was cut or changed.
    """
    with suppress(ValueError, RecursionError):
        metadata = json.loads(content)
        if isinstance(metadata, dict) and metadata.pop("sha256", None) and seal(metadata) == content:
            _require_facts(metadata)
            return _with_present_names(metadata)
    raise ValueError("it was cut or changed")


_FACTS: dict[str, Any] = {
    **dict.fromkeys(("iteration", "ranks"), int),
    **dict.fromkeys(("tensors", "tensors_sha256", "best_judged_by", "main_metric"), str),
    **dict.fromkeys(("simulator", "source", "policy"), dict),
    "best": int | float | None,
}
"""Types of the facts that other code relies on; pydantic is not available where a policy is only loaded."""


def _require_facts(metadata: dict[str, Any]) -> None:
    """Check the types of facts; a count is from 0 to 2^53.

    Raises:
        ValueError: one has another type.
    """
    for name, kind in _FACTS.items():
        value = metadata.get(name)
        if name in metadata and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ValueError(f"{name} has another type")
        if kind is int and not 0 <= metadata.get(name, 0) <= 2**53:
            raise ValueError(f"{name} is no count")


def _with_present_names(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata in which a simulator of this package has the name that it has now."""
    for part in (metadata.get("simulator", {}), metadata.get("source", {})):
        if isinstance(part.get("simulator"), str):
            part["simulator"] = present_name(part["simulator"])
    return metadata


def _read(path: Path, parse: Callable[[bytes], dict[str, T]]) -> tuple[dict[str, T], dict[str, Any]]:
    metadata = unseal(path.read_bytes())
    if metadata.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version (format {metadata.get('format')}, not {FORMAT}).")
    file = Path(str(metadata["tensors"])).name
    content = (path.parent / file).read_bytes()
    if hashlib.sha256(content).hexdigest() != metadata["tensors_sha256"]:
        raise ValueError(f"{file} was cut or changed")
    return parse(content), metadata


def checkpoint_folder(path: Path) -> Path:
    """Return the checkpoint folder that a path means, itself or that of a run directory.

    Raises:
        UserError: it holds no checkpoint, or those of an earlier version.
    """
    for folder in (path, RunDirectory(path).checkpoints("last")):
        if checkpoint_files(folder):
            return folder
        if is_of_earlier_version(folder):
            raise UserError(f"The run in {path} is of an earlier version of Longstride: train again, or use that one.")
    raise UserError(f"There is no checkpoint in {path}: expected iteration-*.json there or in checkpoints/last.")


def policy_folder(path: Path, say: Say = lambda line: None) -> Path:
    """Return the checkpoint folder of the policy that a path means; say which, where that is no matter of course.

    It is the path itself, or the best checkpoint of a run directory, where evaluations while it trained chose it.
    """
    best = RunDirectory(path).checkpoints("best")
    for file in checkpoint_files(best)[:1]:
        with suppress(OSError, ValueError):
            metadata = unseal(file.read_bytes())
            if metadata.get("best_judged_by") == "evaluations" and not checkpoint_files(path):
                which = f"one after iteration {metadata['iteration']}" if metadata["iteration"] else "untrained one"
                which = "mean of the late ones" if metadata.get(MEAN_OF_LATE) else which
                say(f"The policy is the {which}, the best of the evaluations while it trained ({best}).")
                return best
    return path


def _remove_others(folder: Path, kept: list[Path]) -> None:
    """Remove the files that belong to no kept checkpoint."""
    contents = b"".join(path.read_bytes() for path in kept)
    for path in folder.glob("iteration-*"):
        if path not in kept and path.name.encode() not in contents:
            path.unlink(missing_ok=True)
