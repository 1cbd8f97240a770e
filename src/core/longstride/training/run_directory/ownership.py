"""Which run directories are Longstride's own: those with a marker, and those of versions that wrote none.

Inside a run directory the names of :class:`RunDirectory` are Longstride's; every other name is the user's and stays.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from longstride.errors import UserError
from longstride.own_files.marker import claim_folder, kind_of, mark_folder, require_claimable
from longstride.own_files.removal import remove_marked, remove_own_files, require_removable
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.read_json import object_in

_RUN = RunDirectory("")
_FILES = (
    *map(str, (_RUN.config, _RUN.plan, _RUN.scenario, _RUN.fidelity, _RUN.fidelity_report, _RUN.refused_rows)),
    *map(str, (_RUN.metrics, _RUN.messages, _RUN.learning_curve, _RUN.report, _RUN.comparison, _RUN.evaluation)),
    *map(str, (_RUN.acting, _RUN.whatif, _RUN.backtest, _RUN.backtest_report)),
    "evaluation-*-episodes.json",
    *("checkpoints/last/iteration-*.json", "checkpoints/last/iteration-*.safetensors"),
    *("checkpoints/best/iteration-*.json", "checkpoints/best/iteration-*.safetensors"),
    "tensorboard/events.out.tfevents.*",
)
"""Files of a training that is begun again."""


def is_own_run(directory: Path) -> bool:
    """Return whether a folder is a run directory of Longstride, of whatever version."""
    return kind_of(directory) == "run" or is_unmarked_run(RunDirectory(directory))


def require_run_directory(directory: Path) -> None:
    """Check that a folder may become a run directory or is one; nothing is written.

    Raises:
        UserError: it holds something else.
    """
    require_claimable(directory, "run", is_unmarked_run(RunDirectory(directory)))


def open_directory(
    directory: RunDirectory, resume: bool, inputs: Sequence[str], on_error: ExitStack, say: Say
) -> RunLock:
    """Take and lock a run directory, which a new run must find free; return its lock.

    Args:
        directory: of the run.
        resume: whether it continues a run there.
        inputs: files that the run reads.
        on_error: gets what gives the directory up again.
        say: takes a line about a missing lock.

    Raises:
        UserError: it holds something else or another run, it is in use, or the run would write over an input.
    """
    if not resume:
        directory.require_free()
    claim = claim_folder(directory.path, "run", is_unmarked_run(directory))
    on_error.callback(claim.abandon)  # which removes the directory if it is new
    if not resume:
        require_no_input(directory, inputs)
    lock = RunLock(directory.path)
    on_error.callback(lock.release, abandon=True)
    mark_folder(directory.path, "run")  # again, with the lock: another run may have given the folder up
    if not resume:
        directory.require_free()  # another run may have ended there since
    if lock.note:
        say(lock.note)
    return lock


def remove_run(directory: Path) -> None:
    """Remove what an interrupted training left; files that are not its own stay, and then the folder stays too.

    Raises:
        UserError: another process still trains there, or the folder is none of a run.
    """
    if not directory.exists():
        return
    require_removable(directory, "run", is_unmarked_run(RunDirectory(directory)))
    lock = RunLock(directory)
    try:
        remove_own_files(directory, _FILES)
    except OSError as error:
        raise UserError(f"Cannot remove {error.filename}: {error.strerror}.") from None
    finally:
        lock.release()
    remove_marked(directory)


def require_no_input(directory: RunDirectory, inputs: Iterable[str]) -> None:
    """Check that a new run does not write over a file that it reads.

    Raises:
        UserError: a file of the run directory with a name that the run writes is one of the inputs.
    """
    written = [directory.path / name for name in _FILES if "*" not in name]
    for given in filter(None, inputs):
        if any(is_same_file(given, path) for path in written):
            raise UserError(
                f"{given} is read by this training, which would write over it; copy it out of {directory}, or name "
                "another --run-directory."
            )


def is_same_file(a: str | Path, b: Path) -> bool:
    """Return whether two paths lead to one existing file."""
    with suppress(OSError, ValueError):
        return bool(str(a)) and Path(a).samefile(b)
    return False


def require_replaceable(path: Path, keys: Sequence[str]) -> None:
    """Check that writing a result as JSON replaces no file of the user's.

    Args:
        path: file to be written.
        keys: keys that every such result has, in this version and in earlier ones.

    Raises:
        UserError: there is a file that is no such result, in a folder that is no run directory.
    """
    if is_own_run(path.parent) or not (path.exists() or path.is_symlink()):
        return
    if not all(key in object_in(path) for key in keys):
        raise UserError(f"{path} was not written by Longstride; move it away, or name a new --run-directory.")


def require_page_replaceable(path: Path, words: bytes = b"by Longstride") -> None:
    """Check that writing a page replaces no page of the user's.

    Raises:
        UserError: there is a file without these words, in a folder that is no run directory.
    """
    if is_own_run(path.parent) or not (path.exists() or path.is_symlink()):
        return
    if path.is_symlink() or not path.is_file() or words not in path.read_bytes():
        raise UserError(f"{path} was not written by Longstride; move it away.")


def is_unmarked_run(directory: RunDirectory) -> bool:
    """Return whether a folder without marker is a run of an earlier version: by a checkpoint, or by its config.json."""
    if directory.holds_run():
        return True
    content = object_in(directory.config)
    values, sources = content.get("values"), content.get("sources")
    if not isinstance(values, dict) or not isinstance(sources, dict):
        return False
    return {"simulator", "seed", "training_episodes"} <= values.keys() & sources.keys()
