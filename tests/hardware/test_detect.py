"""What machine.py finds, with a fake NVML and torch.cuda at the edge."""

import os

import pytest
import torch
from helpers.fake_gpus import FakeCard, install, of_catalogue

from longstride.hardware.detect import detect_machine, free_and_total_bytes
from longstride.hardware.planning.gpu_catalog import CARDS, card_of, find_card

GIB = 2**30


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)


def h200(**changes):
    values = {"name": "NVIDIA H200", "capability": (9, 0), "total": 150 * 10**9, "free": 149 * 10**9}
    return FakeCard(**{**values, **changes})


def a40(**changes):
    values = {"name": "NVIDIA A40", "capability": (8, 6), "total": 48 * 10**9, "free": 47 * 10**9}
    return FakeCard(**{**values, **changes})


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_of_the_catalogue_is_recognised(monkeypatch, card):
    install(monkeypatch, [of_catalogue(card)])
    machine = detect_machine()
    size = card.gigabytes * 10**9
    assert (machine.gpu.name, machine.gpu.capability) == (card.driver_name, card.capability)
    assert (machine.gpu.total_bytes, machine.gpu.free_bytes) == (size, size)
    assert (machine.gpu.mig, machine.gpu.other_processes, machine.driver) == (False, 0, "550.54.15")
    assert card_of(machine.gpu) == card
    assert machine.gpu_note == ""


@pytest.mark.parametrize(
    ("torch_says", "nvml_says", "smaller"),
    [((149, 150), (148, 150), (148, 150)), ((149, 150), (149, 143), (149, 143)), ((10, 150), (149, 151), (10, 150))],
)
def test_of_torch_and_nvml_the_smaller_counts(monkeypatch, torch_says, nvml_says, smaller):
    card = h200(free=torch_says[0], total=torch_says[1], nvml_free=nvml_says[0], nvml_total=nvml_says[1])
    install(monkeypatch, [card])
    gpu = detect_machine().gpu
    assert (gpu.free_bytes, gpu.total_bytes) == smaller == free_and_total_bytes()


@pytest.mark.parametrize("missing", [{"package": False}, {"driver": False}], ids=str)
def test_without_nvml_torch_alone_is_asked_and_nothing_assumed(monkeypatch, missing):
    install(monkeypatch, [h200(nvml_free=1, pids=(7,))], **missing)
    machine = detect_machine()
    assert machine.gpu.free_bytes == 149 * 10**9
    assert (machine.gpu.other_processes, machine.gpu.mig, machine.driver) == (None, False, "")


def test_a_card_that_another_process_fills(monkeypatch):
    """Making a context fails; NVML says what is left, and by whom the rest is taken."""
    install(monkeypatch, [h200(free=None, nvml_free=10**8, pids=(11, 12))])
    gpu = detect_machine().gpu
    assert (gpu.free_bytes, gpu.total_bytes, gpu.other_processes) == (0, 150 * 10**9, 2)


def test_this_process_is_not_another(monkeypatch):
    install(monkeypatch, [h200(pids=(os.getpid(), 12))])
    assert detect_machine().gpu.other_processes == 1


def test_looking_makes_nobody_another_process(monkeypatch):
    """Asking for memory puts this process on the card, under a pid that a container may not know: count before."""
    card = h200()
    install(monkeypatch, [card])
    pids = iter(range(1000, 2000))
    monkeypatch.setattr(os, "getpid", lambda: next(pids))
    assert detect_machine().gpu.other_processes == 0
    assert card.pids, "the fake did put it there"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ["NVIDIA A40"]),
        ("1,0", ["NVIDIA A40", "NVIDIA H200"]),
        ("GPU-bb", ["NVIDIA A40"]),
        ("0,7", ["NVIDIA H200"]),
    ],
)
def test_cuda_visible_devices_is_respected(monkeypatch, visible, expected):
    """NVML's first card is the H200; the figures that come back must be those of the card that torch sees."""
    cards = [h200(uuid="aa-1", nvml_free=5 * GIB), a40(uuid="bb-2", nvml_free=3 * GIB)]
    install(monkeypatch, cards)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = detect_machine().gpus
    assert [gpu.name for gpu in gpus] == expected
    assert [gpu.free_bytes for gpu in gpus] == [5 * GIB if "H200" in gpu.name else 3 * GIB for gpu in gpus]


def test_cudas_order_need_not_be_nvmls(monkeypatch):
    """CUDA puts the fastest first, NVML goes by slot."""
    cards = [a40(nvml_free=3 * GIB), h200(nvml_free=5 * GIB)]
    install(monkeypatch, cards, order=[1, 0])
    assert [(g.name, g.free_bytes) for g in detect_machine().gpus] == [
        ("NVIDIA H200", 5 * GIB),
        ("NVIDIA A40", 3 * GIB),
    ]


def test_cards_that_are_not_used_get_no_context(monkeypatch):
    cards = [h200(nvml_free=5 * GIB), a40(nvml_free=3 * GIB, nvml_total=50 * 10**9)]
    install(monkeypatch, cards)
    second = detect_machine().gpus[1]
    assert (second.free_bytes, second.total_bytes) == (3 * GIB, 48 * 10**9)
    assert (len(cards[0].pids), cards[1].pids) == (1, ())
    install(monkeypatch, cards, driver=False)
    assert detect_machine().gpus[1].free_bytes == 47 * 10**9, "without NVML only torch can tell"


@pytest.mark.parametrize("visible", ["", "-1"])
def test_hidden_gpus_are_named(monkeypatch, visible):
    install(monkeypatch, [h200()], usable=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    machine = detect_machine()
    assert machine.gpus == ()
    assert machine.gpu_note == f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides the NVIDIA H200 that the driver lists"


@pytest.mark.parametrize("mig", ["slice", "card"])
def test_a_mig_slice_is_no_whole_card(monkeypatch, mig):
    """Found by its own UUID, memory and torch agree; found by its card's, NVML tells of 80 GB and of all processes."""
    slice_of = FakeCard(
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        (8, 0),
        10 * 10**9,
        9 * 10**9,
        nvml_total=80 * 10**9 if mig == "card" else None,
        nvml_free=70 * 10**9 if mig == "card" else None,
        mig=mig,
        pids=(5, 6),
    )
    install(monkeypatch, [slice_of])
    gpu = detect_machine().gpu
    assert (gpu.total_bytes, gpu.free_bytes) == (10 * 10**9, 9 * 10**9)
    assert gpu.mig
    assert gpu.other_processes is None
    assert card_of(gpu) is None, "a seventh of an A100 has not the figures of an A100"


def test_without_nvml_the_name_tells_a_slice(monkeypatch):
    name = "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    install(monkeypatch, [FakeCard(name, (8, 0), 10 * 10**9, 9 * 10**9, mig="slice")], driver=False)
    assert detect_machine().gpu.mig


def test_a_slice_whose_name_does_not_say_so(monkeypatch):
    install(monkeypatch, [h200(mig="slice", total=20 * 10**9, free=19 * 10**9)])
    assert detect_machine().gpu.mig


@pytest.mark.parametrize(
    ("machine", "note"),
    [
        ({"cuda": None, "driver": False}, "this torch is a build without CUDA"),
        ({"cuda": None}, "this torch is a build without CUDA, which cannot use the NVIDIA H200 that the driver lists"),
        ({"usable": False, "driver": False}, "torch finds no usable NVIDIA GPU or driver"),
        ({"usable": False, "package": False}, "torch finds no usable NVIDIA GPU or driver"),
        (
            {"usable": False, "cuda": "13.0"},
            "torch cannot use the NVIDIA H200 that the driver lists; the driver may be too old for CUDA 13.0",
        ),
        (
            {"architectures": ["sm_75", "sm_80"]},
            f"torch {torch.__version__} has no code for the NVIDIA H200 (compute capability 9.0)",
        ),
    ],
    ids=str,
)
def test_why_there_is_no_gpu(monkeypatch, machine, note):
    install(monkeypatch, [h200()], **machine)
    found = detect_machine()
    assert (found.gpus, found.gpu, found.gpu_note) == ((), None, note)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (
            "is_available",
            RuntimeError("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"),
        ),
        ("get_device_properties", RuntimeError("CUDA error: unknown error\nCUDA kernel errors might be ...")),
        ("get_device_properties", AssertionError("Torch not compiled with CUDA enabled")),
    ],
    ids=["available", "properties", "build"],
)
def test_cuda_that_does_not_start_is_no_gpu(monkeypatch, function, error):
    install(monkeypatch, [h200()])

    def fail(*_):
        raise error

    monkeypatch.setattr(torch.cuda, function, fail)
    machine = detect_machine()
    assert machine.gpus == ()
    assert machine.gpu_note == f"CUDA does not start here ({str(error).splitlines()[0]})"


def test_a_driver_without_a_gpu(monkeypatch):
    install(monkeypatch, [], usable=False)
    machine = detect_machine()
    assert (machine.gpu_note, machine.driver) == ("torch finds no usable NVIDIA GPU or driver", "550.54.15")


@pytest.mark.parametrize(
    ("card", "architectures", "has_code"),
    [
        ("V100 16GB", ["sm_75", "sm_80", "sm_90"], False),
        ("V100 16GB", ["sm_60", "sm_70"], True),
        ("V100 16GB", ["sm_60", "compute_60"], True),
        ("A40", ["sm_80"], True),
        ("A30", ["sm_86"], False),
        ("H200", ["sm_90a"], True),
        ("B200", ["sm_90", "compute_90"], True),
        ("T4", [], True),
    ],
)
def test_machine_code_runs_on_its_major_version_and_ptx_on_all_later_ones(monkeypatch, card, architectures, has_code):
    install(monkeypatch, [of_catalogue(find_card(card))], architectures=architectures)
    assert bool(detect_machine().gpus) is has_code


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_the_allocator_of_the_environment(monkeypatch, name):
    install(monkeypatch, [h200()])
    monkeypatch.setenv(name, "max_split_size_mb:512")
    assert detect_machine().allocator == "max_split_size_mb:512"


def test_this_machine_can_be_asked():
    here = detect_machine()
    assert 1 <= here.usable_cores <= here.physical_cores
    assert 0 < here.free_bytes <= here.total_bytes
    assert (here.gpu is None) == bool(here.gpu_note)
