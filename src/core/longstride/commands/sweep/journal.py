"""Studies of Optuna in a journal file that survives a kill."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from longstride.errors import UserError
from longstride.own_files.marker import is_regular
from longstride.own_files.opening import open_own

_BEGINNING, _LONGEST_LINE = b'{"op_code":', 2**20
"""Begin of a line of Optuna's journal, and bytes of the first one that are read."""


def import_optuna(mode: str) -> Any:
    """Return Optuna.

    Raises:
        UserError: it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise UserError(f'--mode {mode} needs Optuna: pip install "longstride[sweep]".') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(optuna: Any, journal: Path, name: str, directions: Sequence[str], pruner: Any = None) -> Any:
    """Return the study in a journal, which is made if there is none; half a line that a kill left is removed.

    Raises:
        UserError: the journal is damaged, or something else.
    """
    _repair_journal(journal)
    try:
        kinds, lock = optuna.storages.journal, optuna.storages.journal.JournalFileOpenLock(str(journal))
        storage = optuna.storages.JournalStorage(kinds.JournalFileBackend(str(journal), lock))
        return optuna.create_study(
            storage=storage, study_name=name, directions=directions, pruner=pruner, load_if_exists=True
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{journal} is damaged ({type(error).__name__}: {error}); name another --run-directory."
        ) from None


def repair_study(optuna: Any, study: Any) -> list[int]:
    """Mark trials that died with their process as failed, to be repeated; return their numbers."""
    states = optuna.trial.TrialState
    dead = study.get_trials(deepcopy=False, states=(states.RUNNING,))
    for trial in dead:
        study.enqueue_trial(trial.params, user_attrs={"repeats": trial.number})
        study.tell(trial.number, state=states.FAIL)
    return [trial.number for trial in dead]


def is_journal(path: Path) -> bool:
    """Return whether a file is a journal of Optuna, or an empty one or its first line cut off by a kill."""
    if not is_regular(path):
        return False
    with path.open("rb") as file:
        first = file.readline(_LONGEST_LINE)
    if not first.endswith(b"\n"):
        return first[: len(_BEGINNING)] == _BEGINNING[: len(first)]
    with suppress(ValueError, RecursionError):
        operation = json.loads(first)
        return isinstance(operation, dict) and "op_code" in operation
    return False


def _repair_journal(journal: Path) -> None:
    """Remove what a kill left: half a line, behind which Optuna would write the next one, and Optuna's lock.

    The lock of the sweep's directory keeps other processes away.

    Raises:
        UserError: a file with the name of the journal, or of its lock, is something else; it is left as it is.
    """
    lock = journal.with_name(f"{journal.name}.lock")
    for path, is_own in ((journal, is_journal), (lock, _is_lock)):
        if (path.exists() or path.is_symlink()) and not is_own(path):
            raise UserError(
                f"{path} is damaged, or no file of a search; move it away, or name another --run-directory."
            )
    lock.unlink(missing_ok=True)
    if journal.exists():
        content = journal.read_bytes()
        with open_own(journal, "r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _is_lock(path: Path) -> bool:
    return is_regular(path) and path.stat().st_size == 0
