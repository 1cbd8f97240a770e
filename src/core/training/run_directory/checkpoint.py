"""Checkpoints: tensors in safetensors, facts in JSON; the last few are kept, and each is intact or known not to be.

A checkpoint is two files in a checkpoint directory: ``episode-00000012.json`` and the tensor file that it names. The
tensors are written first; the moment that the JSON is renamed into place is the moment the checkpoint counts, so a
process that dies at any point leaves the ones before and this one, or the ones before. The JSON holds the digest of the
tensor file and its own, over every byte: what was cut or changed is found, and the checkpoint before is taken.
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

from core.errors import UserError
from core.training.run_directory.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

FORMAT = "longstride-checkpoint/3"
RUN_FACTS = (
    "episode",
    "best",
    "simulator",
    "source",
    "policy",
    "grad_scaler",
)
_FORMAT_1 = "checkpoint.json"


def save_checkpoint(directory: Path, tensors: "dict[str, Tensor]", facts: dict[str, Any], kept: int = 1) -> None:
    """Write a checkpoint; those that were there count until this one is complete.

    Args:
        directory: made if needed, with the folder that it is in.
        tensors: on any device.
        facts: JSON values; must hold ``"episode"``.
        kept: checkpoints that stay, this one and the ones before it. Later ones go: the run went back behind them.

    Raises:
        OSError: the disk is full or cannot be written; what was there is untouched.
    """
    directory.parent.mkdir(exist_ok=True)  # but never the run directory, which somebody may have moved
    directory.mkdir(exist_ok=True)
    content = safetensors.numpy.save({name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()})
    digest = hashlib.sha256(content).hexdigest()
    stem = f"episode-{facts['episode']:08d}"
    file = f"{stem}-{digest[:8]}.safetensors"  # never the name of other tensors, which may count now
    try:
        write_atomically(directory / file, content)
        sealed = seal({"format": FORMAT, **facts, "tensors": file, "tensors_sha256": digest})
        write_atomically(directory / f"{stem}.json", sealed)
    except OSError:
        with suppress(OSError):
            _sweep(directory, _newest_first(directory))
        raise
    until = [path for path in _newest_first(directory) if _rank(path) <= _rank(directory / f"{stem}.json")]
    _sweep(directory, until[:kept])


def kept_before(directory: Path, episode: int) -> list[Path]:
    """Return the last checkpoints of a run from before a training episode, intact or not, the newest first."""
    last = directory / "checkpoints" / "last"
    return [path for path in _newest_first(last) if _is_before(path, episode)]


def load_run(
    directory: Path, say: Callable[[str], None], before: int | None = None
) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Read a checkpoint that a training run wrote, with everything that is needed to evaluate it or go on.

    Args:
        directory: as for :func:`load_checkpoint`.
        say: likewise.
        before: likewise.

    Raises:
        UserError: there is none, or none that is intact and complete.
    """
    tensors, facts = load_checkpoint(directory, say, before)
    missing = [name for name in RUN_FACTS if name not in facts]
    if missing:
        raise UserError(f"The checkpoint in {directory} is damaged: it lacks {', '.join(missing)}.")
    return tensors, facts


def load_checkpoint(
    directory: Path, say: Callable[[str], None] = lambda sentence: None, before: int | None = None
) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Read the newest checkpoint that is intact.

    Args:
        directory: a checkpoint directory, or a run directory, whose last checkpoint is taken.
        say: is told of each newer one that is damaged.
        before: training episode before which it has to be.

    Raises:
        UserError: there is none, none is intact, or they are of another version.
    """
    from safetensors.torch import load  # here, because a policy is loaded without torch

    return _load(directory, say, before, load)


def load_arrays(directory: Path, say: Callable[[str], None]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the newest checkpoint that is intact, without torch; arguments and errors as for :func:`load_checkpoint`."""
    return _load(directory, say, None, safetensors.numpy.load)


def _load(
    directory: Path, say: Callable[[str], None], before: int | None, parse: Callable[[bytes], dict[str, T]]
) -> tuple[dict[str, T], dict[str, Any]]:
    directory = _directory_of(directory)
    damaged: dict[Path, str] = {}
    # Listed anew each time: a run that goes on may have replaced what was there a moment ago.
    while left := [path for path in _newest_first(directory) if path not in damaged and _is_before(path, before)]:
        try:
            tensors, facts = _read(left[0], parse)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            damaged[left[0]] = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            continue
        for path, reason in damaged.items():
            say(f"The checkpoint {path} is damaged ({reason}); that of episode {facts['episode']} takes its place.")
        return tensors, facts
    path, reason = next(iter(damaged.items()))
    more = f", nor do the {len(damaged) - 1} before it" if len(damaged) > 1 else ""
    raise UserError(f"The checkpoint {path} is damaged ({reason}){more}: train again, or name another checkpoint.")


def holds_checkpoint(directory: Path) -> bool:
    """Return whether a run directory holds a checkpoint to go on from, intact or not, of whatever version."""
    last = directory / "checkpoints" / "last"
    return bool(_newest_first(last)) or (last / _FORMAT_1).exists()


def seal(facts: dict[str, Any]) -> bytes:
    """Return facts as JSON that holds its own digest."""
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps({**facts, "sha256": digest}).encode() + b"\n"


def unseal(content: bytes) -> dict[str, Any]:
    """Return the facts of :func:`seal`. Since it must give the same bytes again, none of them can have changed.

    Raises:
        ValueError: the content was cut or changed.
    """
    with suppress(ValueError, RecursionError):
        facts = json.loads(content)
        if isinstance(facts, dict) and facts.pop("sha256", None) and seal(facts) == content:
            return facts
    raise ValueError("it was cut or changed")


def _read(path: Path, parse: Callable[[bytes], dict[str, T]]) -> tuple[dict[str, T], dict[str, Any]]:
    facts = unseal(path.read_bytes())
    if facts.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version (format {facts.get('format')}, not {FORMAT}).")
    file = Path(str(facts["tensors"])).name
    content = (path.parent / file).read_bytes()
    if hashlib.sha256(content).hexdigest() != facts["tensors_sha256"]:
        raise ValueError(f"{file} was cut or changed")
    return parse(content), facts


def _directory_of(directory: Path) -> Path:
    """Return the checkpoint directory that is meant."""
    for candidate in (directory, directory / "checkpoints" / "last"):
        if _newest_first(candidate):
            return candidate
        if (candidate / _FORMAT_1).exists():
            raise UserError(f"The checkpoint in {candidate} is not of this version ({FORMAT}): train again.")
    raise UserError(f"There is no checkpoint in {directory}: expected episode-*.json there or in checkpoints/last.")


def _is_before(path: Path, episode: int | None) -> bool:
    return episode is None or int(path.stem.rpartition("-")[2]) < episode


def _newest_first(directory: Path) -> list[Path]:
    found = (path for path in directory.glob("episode-*.json") if path.stem.rpartition("-")[2].isdecimal())
    return sorted(found, key=_rank, reverse=True)


def _rank(path: Path) -> tuple[int, str]:
    """Return what sorts names by their episode, which may have more digits than are usual."""
    return len(path.name), path.name


def _sweep(directory: Path, kept: list[Path]) -> None:
    """Remove what belongs to no kept checkpoint."""
    named = b"".join(path.read_bytes() for path in kept)
    for path in directory.glob("episode-*"):
        if path not in kept and path.name.encode() not in named:
            path.unlink(missing_ok=True)
