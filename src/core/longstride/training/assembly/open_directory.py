"""The directory of a run: chosen, taken and locked before anything is written into it."""

from collections.abc import Sequence
from contextlib import ExitStack

from longstride.config import Config
from longstride.errors import UserError
from longstride.own_files.marker import claim_folder, mark_folder
from longstride.simulators.loading import LoadedSimulator
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory, choose_directory
from longstride.training.run_directory.lock import RunLock
from longstride.training.run_directory.ownership import is_unmarked_run, require_no_input


def run_directory_for(config: Config, resume: bool, loaded: LoadedSimulator) -> RunDirectory:
    """Return the directory that a run is to have.

    Raises:
        UserError: a resume names none, or it is a file.
    """
    if resume and not config.run_directory:
        raise UserError("--resume needs --run-directory DIR, the run to continue.")
    name = loaded.simulator.hooks.name or loaded.source["simulator"].rpartition(":")[2].lower()
    return choose_directory(config.run_directory, name)


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
