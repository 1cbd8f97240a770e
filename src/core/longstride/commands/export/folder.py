"""The folder of an exported policy."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from longstride.errors import UserError
from longstride.own_files.marker import claim_folder, is_regular
from longstride.policies.export.contract import (
    C_HEADER,
    C_SOURCE,
    CONTRACT,
    ONNX,
    README,
    TENSORS,
    contract_bytes,
)
from longstride.training.run_directory.files import write_or_refuse
from longstride.training.run_directory.ownership import is_own_run
from longstride.training.run_directory.read_json import read_json

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
            UserError: the folder is a file or holds something else, or it cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; --output needs a folder.")
        if self.path.is_symlink() and self._is_inside_a_run():
            raise UserError(f"{self.path} is a symbolic link, and links are not followed there; name an --output.")
        claim_folder(self.path, "export", earlier=self._is_export(), flag="--output")
        try:
            for name in _NAMES:
                if name != CONTRACT and is_regular(self.path / name):
                    (self.path / name).unlink()
            self.write_contract({})
        except OSError as error:
            raise UserError(f"Cannot write into {self.path}: {error.strerror}.") from None

    def write(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            UserError: it cannot be written.
        """
        write_or_refuse(self.path / name, content)
        self.written.add(name)

    def write_contract(self, contract: dict[str, Any]) -> None:
        """Write the contract."""
        self.write(CONTRACT, contract_bytes(contract))

    def write_readme(self, text: str) -> None:
        """Write the README."""
        self.write(README, text.encode())

    def _is_inside_a_run(self) -> bool:
        return is_own_run(self.path.parent)

    def _is_export(self) -> bool:
        with suppress(OSError, ValueError, AttributeError):
            content = read_json(self.path / CONTRACT)
            return bool(content == {} or str(content.get("format", "")).startswith("longstride-policy/"))
        return False
