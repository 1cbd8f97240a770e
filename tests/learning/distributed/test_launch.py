"""The place of a process among the others, from torchrun's variables, and its share of the machine."""

import os

import pytest

from longstride.errors import UserError
from longstride.hardware.types import Machine
from longstride.learning.distributed.launch import Launch, see_own_gpu, shared_machine

TORCHRUN = {
    **{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
    **{"TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_MAX_RESTARTS": "3"},
}


def test_the_place_is_what_torchrun_says():
    assert Launch.from_environment({}) == Launch()
    assert Launch.from_environment({"WORLD_SIZE": "4"}) == Launch()  # some clusters set it alone
    assert Launch.from_environment(TORCHRUN) == Launch(5, 8, 1, 4, 2, 3)


@pytest.mark.parametrize(("changes", "match"), [({"RANK": "x"}, "must be numbers"), ({"RANK": "8"}, "RANK is 8 and")])
def test_variables_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(UserError, match=match):
        Launch.from_environment({**TORCHRUN, **changes})


def test_what_needs_one_process_or_a_directory_says_so():
    launch = Launch.from_environment(TORCHRUN)
    with pytest.raises(UserError, match=r"--mode plan runs in one process, and torchrun has started 8; leave it out\."):
        launch.require_one_process("plan")
    with pytest.raises(UserError, match=r"--max-restarts.*name a --run-directory"):
        launch.require_directory("")
    launch.require_directory("runs/here")
    Launch().require_one_process("plan")
    Launch(size=2).require_directory("")


@pytest.mark.parametrize(("visible", "seen"), [(None, "1"), ("4,6", "6"), ("GPU-a,GPU-b,GPU-c", "GPU-b"), ("4", "")])
def test_each_process_of_a_host_sees_a_gpu_of_its_own(monkeypatch, visible, seen):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    see_own_gpu(Launch())
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible
    see_own_gpu(Launch(5, 8, 1, 4))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
    os.environ.pop("CUDA_VISIBLE_DEVICES")  # set past monkeypatch, which would put it back


def test_the_processes_of_a_host_share_cores_and_memory():
    here = Machine(physical_cores=9, usable_cores=9, total_bytes=2000, free_bytes=1000)
    shared = shared_machine(here, 4)
    assert (shared.usable_cores, shared.free_bytes) == (2, 250)
    assert shared.cores_note == "9 for 4 processes"
    assert shared_machine(here, 1) is here
    assert shared_machine(here, 16).usable_cores == 1
