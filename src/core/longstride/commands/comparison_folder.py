"""The folder of a comparison of trainings, which the same command continues; ``ab`` and ``sweep`` have one."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.commands.fresh_process import last_words, run_fresh
from longstride.errors import UserError
from longstride.own_files.marker import Kind, claim_folder, kind_of, mark_folder
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.ownership import remove_run
from longstride.training.run_directory.read_json import object_in, read_json


@dataclass(frozen=True)
class ComparisonFolder:
    """A folder with trainings, and a file with their result.

    Attributes:
        path: the folder.
        kind: what its marker says.
        result: the file with the result.
        identity: JSON values that tell this comparison from others, which the result begins with.
        compared: returns what counts of them, from the identity or a result; may raise KeyError or TypeError.
        other: what another comparison is called, a phrase.
        kept: what is kept if the command is interrupted, a phrase.
    """

    path: Path
    kind: Kind
    result: Path
    identity: dict[str, Any]
    compared: Callable[[dict[str, Any]], Iterable[Any]]
    other: str
    kept: str

    @contextmanager
    def held(self, say: Say, is_known: bool = True) -> Iterator[None]:
        """Hold the folder against other processes, and check that it is that of this comparison.

        ``is_known``: whether a folder that an earlier version left without a marker may be one of this kind.

        Raises:
            UserError: it is in use, or holds something else.
        """
        RunDirectory(self.path).require_free()
        has_names = self.identity.keys() <= object_in(self.result).keys()
        is_unmarked = is_known and not kind_of(self.path) and has_names
        if is_unmarked:
            self._require_same()
        claim, lock = claim_folder(self.path, self.kind, earlier=is_unmarked), RunLock(self.path)
        try:
            if self.result.exists():
                self._require_same()
            mark_folder(self.path, self.kind)  # again, with the lock: another one may have given the folder up
            yield
        except KeyboardInterrupt:
            say(f"Finished {self.kept} are kept: the same command continues after them.")
            raise
        finally:
            lock.release(abandon=True)
            claim.abandon()

    def write(self, **more: Any) -> None:
        """Write the result: the identity, and more."""
        write_json(self.result, {**self.identity, **more})

    def _require_same(self) -> None:
        """Check that the result is of this comparison, so that its trainings count."""
        try:
            known = list(self.compared(read_json(self.result)))
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{self.result} is damaged; name another --run-directory, or remove that one.") from None
        if known != json.loads(json.dumps(list(self.compared(self.identity)))):
            raise UserError(
                f"{self.result} is of {self.other}; repeat its flags to continue it, or name another --run-directory."
            )


def train_anew(
    directory: Path, arguments: list[str], log: Path, stop: Callable[[], bool] | None = None
) -> tuple[str, float]:
    """Train in a fresh process; return why it failed, empty if it did not, and its seconds.

    The rest of an interrupted attempt is removed. ``stop`` is that of
    :func:`longstride.commands.fresh_process.run_fresh`.

    Raises:
        UserError: another process still trains in the directory.
    """
    remove_run(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    code, seconds = run_fresh(arguments, log, stop)
    return last_words(code, log) if code else "", seconds
