"""Whether the trajectories of a round fit into the host's memory: known before they are allocated."""

from core.errors import UserError
from core.hardware.types import HostRollout, Machine


def trajectories(rollout: HostRollout, machine: Machine, pinned: bool) -> tuple[int, str]:
    """Return the bytes that the trajectories of a round take, and the reason, a phrase.

    Args:
        rollout: what they need.
        machine: where they will lie.
        pinned: whether all rows are taken at once, for a GPU to read.
    """
    size = rollout.pinned_bytes if pinned else rollout.bytes
    free = f"{'more than the ' if size > machine.free_bytes else ''}{in_megabytes(machine.free_bytes)} free"
    return size, f"{_whose(rollout, pinned)}; {free}"


def has_room(rollout: HostRollout, machine: Machine, pinned: bool, update: int = 0) -> bool:
    """Return whether the host's memory can hold the trajectories of a round, and its update beside them.

    Episodes that may well be shorter (``at_most``) are given all memory that the machine has, in use or not, unless all
    rows are taken at once.

    Args:
        rollout: what the trajectories need.
        machine: where they will lie.
        pinned: whether all rows are taken at once, for a GPU to read.
        update: bytes of the update, where it runs on the host too.
    """
    size, _ = trajectories(rollout, machine, pinned)
    return size + update <= (machine.total_bytes if rollout.at_most and not pinned else machine.free_bytes)


def require_room(rollout: HostRollout, machine: Machine, pinned: bool, update: int = 0) -> None:
    """Refuse what :func:`has_room` says does not fit, while nothing is allocated.

    Raises:
        UserError: it does not fit into what is free, or into what the control group leaves.
    """
    if has_room(rollout, machine, pinned, update):
        return
    size, _ = trajectories(rollout, machine, pinned)
    beside = f" and the update {in_megabytes(update)} beside them" if update else ""
    shorter = "max_steps of the simulator (if episodes are shorter), " if rollout.at_most else ""
    if rollout.at_most and not pinned:
        room, remedy = f"this machine has {in_megabytes(machine.total_bytes)}", "or set or lower ROLLOUT_STEPS"
    else:
        room, remedy = f"{in_megabytes(machine.free_bytes)} are free", "set or lower ROLLOUT_STEPS, or free memory"
    raise UserError(
        f"The trajectories of a round need {in_megabytes(size)} of memory ({_whose(rollout, pinned)}){beside}, but "
        f"{room}; lower {shorter}EPISODES_PER_UPDATE, {remedy}."
    )


def in_megabytes(count: int) -> str:
    """Return a number of bytes in decimal MB."""
    return f"{count / 1e6:,.{1 if count < 1e7 else 0}f} MB"


def _whose(rollout: HostRollout, pinned: bool) -> str:
    copies = f"{rollout.copies:,} {'copy' if rollout.copies == 1 else 'copies'}"
    if pinned:
        return f"{copies} with {rollout.rows:,} rows, taken at once for the GPU to read"
    if rollout.at_most:
        return f"{copies} of up to {rollout.decisions:,} decisions; rows that are never written take none"
    return f"{copies} of {rollout.decisions:,} decisions"
