"""What torchrun tells a process of its place among the others, in environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from longstride.errors import UserError
from longstride.hardware.types import Machine

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Launch:
    """The place of a process among those of a run."""

    rank: int = 0  # number among all processes
    size: int = 1  # number of processes
    host_rank: int = 0  # number among those on this host
    host_size: int = 1  # number of processes on this host
    restarts: int = 0  # times that torchrun has started the processes again
    most_restarts: int = 0  # times that it may

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Launch":
        """Return what torchrun, or another launcher with the same variables, says; one process where nothing does.

        Raises:
            UserError: a variable is no number, or they contradict each other.
        """
        names = {"rank": "RANK", "size": "WORLD_SIZE", "host_rank": "LOCAL_RANK", "host_size": "LOCAL_WORLD_SIZE"}
        names |= {"restarts": "TORCHELASTIC_RESTART_COUNT", "most_restarts": "TORCHELASTIC_MAX_RESTARTS"}
        if "RANK" not in environment or "WORLD_SIZE" not in environment:
            return cls()
        try:
            launch = cls(**{field: int(environment[name]) for field, name in names.items() if name in environment})
        except ValueError as error:
            raise UserError(
                f"RANK, WORLD_SIZE and the other variables of torchrun must be numbers ({error})."
            ) from None
        if not 0 <= launch.rank < launch.size:
            raise UserError(
                f"RANK is {launch.rank} and WORLD_SIZE {launch.size}; start the processes with torchrun, or unset both."
            )
        return launch

    def require_one_process(self, mode: str) -> None:
        """Check that a mode that several processes cannot share is not started by torchrun.

        Raises:
            UserError: it is.
        """
        if self.size > 1:
            raise UserError(f"--mode {mode} runs in one process, and torchrun has started {self.size}; leave it out.")

    def require_directory(self, run_directory: str) -> None:
        """Check that a run that torchrun may start again can be found again.

        Raises:
            UserError: it has no named directory.
        """
        if self.most_restarts and not run_directory:
            raise UserError(
                "torchrun may start this run again (--max-restarts), which then has to find it: name a --run-directory."
            )


def see_own_gpu(launch: Launch) -> None:
    """Let this process see the GPU of its number on the host alone; CUDA must not have started."""
    if launch.size == 1:
        return
    visible = os.environ.get(_VISIBLE)
    names = [str(launch.host_rank)] if visible is None else visible.split(",")[launch.host_rank :][:1]
    os.environ[_VISIBLE] = "".join(names)


def shared_machine(machine: Machine, processes: int) -> Machine:
    """Return the share of a process in a machine whose cores and memory several use."""
    if processes == 1:
        return machine
    notes = filter(None, [machine.cores_note, f"{machine.usable_cores} for {processes} processes"])
    return replace(
        machine,
        usable_cores=max(machine.usable_cores // processes, 1),
        free_bytes=machine.free_bytes // processes,
        cores_note=", ".join(notes),
    )
