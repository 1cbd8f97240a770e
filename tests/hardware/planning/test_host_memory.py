"""What the trajectories of a round take of the host's memory, against figures by hand."""

from dataclasses import replace

import pytest

from longstride.errors import UserError
from longstride.hardware.planning.gpu_catalog import NOMINAL_HOST
from longstride.hardware.planning.host_memory import require_room, trajectories
from longstride.hardware.types import HostRollout

MB = 10**6
SIX = HostRollout(copies=6, decisions=62_000, rows=166_358, at_most=False, bytes=443 * MB, pinned_bytes=1190 * MB)


def host(free):
    return replace(NOMINAL_HOST, free_bytes=free)


def test_what_is_written_counts_and_for_a_gpu_all_rows():
    assert trajectories(SIX, host(20_000 * MB), False) == (443 * MB, "6 instances of 62,000 steps; 20.00 GB free")
    size, reason = trajectories(SIX, host(1_000 * MB), True)
    assert size == 1190 * MB
    assert (
        reason == "6 instances with 166,358 rows, allocated at once for the GPU to read; more than the 1,000.0 MB free"
    )


def test_a_most_is_called_a_most():
    one = HostRollout(copies=1, decisions=500, rows=500, at_most=True, bytes=24_000, pinned_bytes=24_000)
    _, reason = trajectories(one, host(20 * MB), False)
    assert reason == "1 instance of up to 500 steps; rows that are never written take no memory; 20.0 MB free"


@pytest.mark.parametrize(
    ("free", "pinned", "refused"),
    [(443, False, False), (442, False, True), (1190, True, False), (1189, True, True), (443, True, True)],
)
def test_the_edge(free, pinned, refused):
    if not refused:
        return require_room(SIX, host(free * MB), pinned)
    size = "1,190.0 MB" if pinned else "443.0 MB"
    with pytest.raises(UserError, match=rf"need {size} of memory .* but {free:,}.0 MB are free; lower NUM_ENVS"):
        require_room(SIX, host(free * MB), pinned)
    return None


def test_the_update_counts_beside_the_trajectories():
    require_room(SIX, host(643 * MB), False, 200 * MB)
    with pytest.raises(
        UserError, match=r"443.0 MB of memory \(6 .*\) and the update 200.0 MB in addition, but 642.0 MB are"
    ):
        require_room(SIX, host(642 * MB), False, 200 * MB)


def test_episodes_that_may_be_shorter_are_refused_where_all_memory_would_not_hold_them():
    generous = replace(SIX, at_most=True)
    require_room(generous, replace(host(MB), total_bytes=443 * MB), False)
    with pytest.raises(UserError, match=r"lower max_steps of the simulator \(if episodes are shorter\), NUM_ENVS"):
        require_room(generous, replace(host(MB), total_bytes=442 * MB), False)


def test_episodes_that_may_be_shorter_are_not_refused_unless_all_rows_are_taken():
    generous = replace(SIX, at_most=True)
    require_room(generous, host(MB), False)
    with pytest.raises(UserError, match="allocated at once for the GPU to read"):
        require_room(generous, host(MB), True)
