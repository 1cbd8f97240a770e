"""Checkpoints: tensors in safetensors, facts in JSON, switched over by one atomic rename.

A checkpoint directory holds ``checkpoint.json`` and the tensor file that it names. A new tensor file is written beside
the old one under another name; replacing ``checkpoint.json`` is the moment the new checkpoint counts. A process that
dies at any point leaves the old one or the new one, never half of either.
"""

import hashlib
import json
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from core.errors import UserError
from core.training.files import write_atomically, write_durably

FORMAT = "longstride-checkpoint/1"
FACTS = "checkpoint.json"
RUN_FACTS = (
    "episode",
    "best",
    "simulator",
    "source",
    "actor_sizes",
    "critic_sizes",
    "action_features",
    "activation",
    "grad_scaler",
)


def save_checkpoint(directory: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write a checkpoint; the one that was there counts until this one is complete.

    Args:
        directory: made if needed.
        tensors: on any device.
        facts: JSON values; must hold ``"episode"``.

    Raises:
        UserError: the disk is full or cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        content = safetensors.numpy.save({name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()})
        name = f"state-{facts['episode']:08d}.safetensors"
        if (directory / FACTS).exists() and name in (directory / FACTS).read_text(encoding="utf-8", errors="replace"):
            name = f"state-{facts['episode']:08d}-again.safetensors"  # never touch the file that counts now
        write_durably(directory / name, content)
        record = {"format": FORMAT, "tensors": name, "sha256": hashlib.sha256(content).hexdigest(), **facts}
        write_atomically(directory / FACTS, json.dumps(record).encode())
        for old in directory.glob("state-*.safetensors"):
            if old.name != name:
                old.unlink()
    except OSError as error:
        for unfinished in directory.glob("*.tmp"):
            unfinished.unlink(missing_ok=True)
        raise UserError(
            f"Cannot write the checkpoint in {directory}: {error.strerror}. What was saved before is untouched; free "
            "some space or mend the permissions and go on with --resume."
        ) from None


class CheckpointWriter:
    """Writes checkpoints while the run goes on, because waiting for a disk can take longer than a round.

    At most one is on its way: a process that dies has the checkpoint before the last one saved, or the last one.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._on_its_way: Future[None] | None = None

    def save(self, directory: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Have a checkpoint written as :func:`save_checkpoint` does, of the tensors as they are now.

        Raises:
            UserError: the checkpoint before could not be written.
        """
        now = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self.wait()
        self._on_its_way = self._thread.submit(save_checkpoint, directory, now, facts)

    def wait(self) -> None:
        """Wait until all is written.

        Raises:
            UserError: something could not be.
        """
        pending, self._on_its_way = self._on_its_way, None
        if pending is not None:
            pending.result()


def load_run(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint that a training run wrote, with everything that is needed to evaluate it or go on.

    Raises:
        UserError: there is none, or it is damaged or incomplete.
    """
    tensors, facts = load_checkpoint(directory)
    missing = [name for name in RUN_FACTS if name not in facts]
    if missing:
        raise UserError(f"The checkpoint in {directory} is damaged: {FACTS} lacks {', '.join(missing)}.")
    return tensors, facts


def load_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint.

    Args:
        directory: a checkpoint directory, or a run directory, whose last checkpoint is taken.

    Raises:
        UserError: there is none, or it is damaged.
    """
    if not (directory / FACTS).exists() and (directory / "checkpoints" / "last" / FACTS).exists():
        directory = directory / "checkpoints" / "last"
    if not (directory / FACTS).exists():
        raise UserError(f"There is no checkpoint in {directory}: expected {FACTS} or checkpoints/last/{FACTS}.")
    try:
        facts = json.loads((directory / FACTS).read_text(encoding="utf-8"))
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise UserError(f"{directory / FACTS} is not a checkpoint of this program (format {FORMAT}).")
        content = (directory / Path(str(facts["tensors"])).name).read_bytes()
        if hashlib.sha256(content).hexdigest() != facts["sha256"]:
            raise UserError(f"The checkpoint in {directory} is damaged: {facts['tensors']} was cut or changed.")
        return safetensors.torch.load(content), facts
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(f"The checkpoint in {directory} cannot be read: {error}.") from None
