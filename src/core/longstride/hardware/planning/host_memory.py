"""Whether the trajectories of an iteration fit into the host's memory: known before they are allocated."""

from longstride.errors import UserError
from longstride.hardware.types import HostRollout, Machine
from longstride.text import counted, format_bytes


def trajectories(rollout: HostRollout, machine: Machine, pinned: bool) -> tuple[int, str]:
    """Return the bytes of an iteration's trajectories (``pinned``: with all rows allocated at once), and the reason."""
    size = rollout.pinned_bytes if pinned else rollout.bytes
    more = "more than the " if size > machine.free_bytes else ""
    return size, f"{_format_shape(rollout, pinned)}; {more}{format_bytes(machine.free_bytes)} free"


def has_room(rollout: HostRollout, machine: Machine, pinned: bool, update: int = 0) -> bool:
    """Return whether the host's memory can hold the trajectories of :func:`trajectories` and ``update`` bytes more.

    Episodes that may well be shorter (``at_most``) may fill all memory of the machine, in use or not, unless all rows
    are allocated at once.
    """
    size = rollout.pinned_bytes if pinned else rollout.bytes
    return size + update <= (machine.total_bytes if rollout.at_most and not pinned else machine.free_bytes)


def require_room(rollout: HostRollout, machine: Machine, pinned: bool, update: int = 0) -> None:
    """Refuse a run for which :func:`has_room` is false, while nothing is allocated.

    Raises:
        UserError: the run does not fit into the free memory, or into what the control group leaves.
    """
    if has_room(rollout, machine, pinned, update):
        return
    size = format_bytes(rollout.pinned_bytes if pinned else rollout.bytes)
    beside = f" and the update {format_bytes(update)} in addition" if update else ""
    shorter = "max_steps of the simulator (if episodes are shorter), " if rollout.at_most else ""
    if rollout.at_most and not pinned:
        room, remedy = f"this machine has {format_bytes(machine.total_bytes)}", "or set or lower ROLLOUT_STEPS"
    else:
        room, remedy = f"{format_bytes(machine.free_bytes)} are free", "set or lower ROLLOUT_STEPS, or free memory"
    raise UserError(
        f"The trajectories of an iteration need {size} of memory ({_format_shape(rollout, pinned)}){beside}, but "
        f"{room}; lower {shorter}NUM_ENVS, {remedy}."
    )


def _format_shape(rollout: HostRollout, pinned: bool) -> str:
    """Return what the trajectories consist of; states of a policy with memory are named where they are most of it."""
    shape = _format_steps(rollout, pinned)
    mostly_states = rollout.state_bytes > rollout.bytes // 2
    return f"{shape}, {format_bytes(rollout.state_bytes)} of it what the policy remembers" if mostly_states else shape


def _format_steps(rollout: HostRollout, pinned: bool) -> str:
    instances = counted(rollout.copies, "instance")
    if pinned:
        return f"{instances} with {rollout.rows:,} rows, allocated at once for the GPU to read"
    if rollout.at_most:
        return f"{instances} of up to {rollout.decisions:,} steps; rows that are never written take no memory"
    return f"{instances} of {rollout.decisions:,} steps"
