"""The folder of an exported policy."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.policies.export.contract import (
    C_HEADER,
    C_SOURCE,
    CONTRACT,
    ONNX,
    README,
    TENSORS,
    contract_bytes,
)
from core.training.run_directory.files import write_atomically
from core.training.run_directory.read_json import read_json

_NAMES = (TENSORS, CONTRACT, ONNX, C_SOURCE, C_HEADER, README)


class ExportFolder:
    """Writes the files of an export; it replaces those of an earlier one, and no others.

    Attributes:
        path: folder, made by the first file.
        written: names of the files so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: set[str] = set()

    def begin(self) -> None:
        """Remove the files of an earlier export, so that no old form stands beside new ones.

        Raises:
            UserError: the folder is a file, has such files from elsewhere, or cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; --output needs a folder.")
        there = [name for name in _NAMES if (self.path / name).exists()]
        if there and not self._is_export():
            raise UserError(f"{self.path} has a {there[0]} that no export wrote; name another folder with --output.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in there:
                if name != CONTRACT:
                    (self.path / name).unlink()
            self.write_contract({})  # the folder is known by it, also where what follows is interrupted
        except OSError as error:
            raise UserError(f"Cannot write into {self.path}: {error.strerror}.") from None

    def write(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            UserError: it cannot be written.
        """
        try:
            write_atomically(self.path / name, content)
        except OSError as error:
            raise UserError(f"Cannot write {self.path / name}: {error.strerror}.") from None
        self.written.add(name)

    def write_contract(self, contract: dict[str, Any]) -> None:
        """Write the contract."""
        self.write(CONTRACT, contract_bytes(contract))

    def write_readme(self, text: str) -> None:
        """Write the README."""
        self.write(README, text.encode())

    def _is_export(self) -> bool:
        with suppress(OSError, ValueError, AttributeError):
            content = read_json(self.path / CONTRACT)
            return bool(content == {} or str(content.get("format", "")).startswith("longstride-policy/"))
        return False
