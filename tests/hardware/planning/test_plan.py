"""Plans for machines that are not here, and the lines that announce them."""

import json
import sys
from dataclasses import replace

import pytest

from longstride.errors import UserError
from longstride.hardware.planning.gpu_catalog import CARDS, find_card, machine_with
from longstride.hardware.planning.plan import make_plan
from longstride.hardware.types import Gpu, HostRollout, Machine, PlanSettings
from longstride.training.display.messages import batch_line, memory_lines, precision_lines, update_line

H200 = Gpu("NVIDIA H200", (9, 0), 150_000_000_000, 148_500_000_000)
T4 = Gpu("Tesla T4", (7, 5), 16_000_000_000, 15_000_000_000)
OLD = Gpu("Tesla P40", (6, 1), 24_000_000_000, 23_000_000_000)
NOTE = "torch finds no usable NVIDIA GPU or driver"

SETTINGS = PlanSettings(
    device="auto",
    precision="auto",
    mixed_precision=True,
    tf32=True,
    auto_batch=True,
    largest_batch=65_536,
    samples=62_000,
    bytes_per_sample={False: 8000, True: 4000},
    widest_layer=256,
    parallel_episodes=1,
    parallel_reason="NUM_ENVS is 1",
    rollout=HostRollout(copies=1, decisions=62_000, rows=160_000, bytes=9_540_000, pinned_bytes=190 * 10**6),
    simulation_threads=0,
    update_threads=0,
)


def machine(gpu=None, cores=8, **changes):
    gpus, note = ((gpu,), "") if gpu else ((), NOTE)
    return Machine(16, cores, 64_000_000_000, 48_000_000_000, gpus, note, **changes)


def plan(here, **changes):
    return make_plan(here, replace(SETTINGS, **changes))


def test_an_h200():
    p = plan(machine(H200))
    assert (p.device, p.precision, p.tf32, p.cudnn_benchmark) == ("cuda", "bf16", True, True)
    assert p.batch_size == p.microbatch == 32_768
    assert precision_lines(p, (9, 0)) == [
        "Mixed Precision: BF16 enabled (Compute 9.0)",
        "H200 optimizations enabled (TF32: True)",
    ]
    assert batch_line(p).startswith("Auto-adjusted batch size: 32768")


def test_a_t4_has_fp16_and_no_tf32():
    p = plan(machine(T4))
    assert (p.device, p.precision, p.tf32) == ("cuda", "fp16", False)
    assert precision_lines(p, (7, 5)) == [
        "Mixed Precision: FP16 enabled (Compute 7.5)",
        "Tesla T4 optimizations enabled (TF32: False)",
    ]


@pytest.mark.parametrize(
    ("gpu", "mixed", "reason"),
    [(OLD, True, "compute capability 6.1"), (H200, False, "USE_MIXED_PRECISION is off")],
)
def test_fp32_says_why(gpu, mixed, reason):
    p = plan(machine(gpu), mixed_precision=mixed)
    assert p.precision == "fp32"
    assert precision_lines(p, gpu.capability)[0] == f"Mixed Precision: off, FP32 ({reason})"


def test_no_gpu_is_normal():
    p = plan(machine())
    assert (p.device, p.precision, p.tf32, p.cudnn_benchmark, p.device_name) == ("cpu", "fp32", False, False, "CPU")
    assert p.batch_size == 32_768
    assert p.microbatch <= 4096, "a CPU works in pieces that its caches hold"
    torchs = plan(machine(), update_execution="eager")
    assert torchs.reasons["microbatch"] == "activations of 2,048 samples stay in a core's caches"
    (line,) = precision_lines(p, None)
    assert line.startswith(f"No GPU ({NOTE}): updates run on the CPU in FP32 on 8 threads")


def test_a_gpu_that_is_not_wanted():
    p = plan(machine(H200), device="cpu")
    assert (p.device, p.precision) == ("cpu", "fp32")
    assert p.reasons["device"] == "DEVICE is cpu"


def test_a_gpu_that_is_demanded_and_not_there():
    with pytest.raises(UserError, match=f"DEVICE is cuda, but {NOTE}; set DEVICE to auto or cpu"):
        plan(machine(), device="cuda")


def test_little_memory_makes_small_batches_and_half_precision_larger_ones():
    """0.7 * 10^8 = 7 * 10^7 bytes: 8750 samples of 8000 bytes, 17,500 of 4000."""
    tight = Gpu("NVIDIA H200", (9, 0), 10**9, 10**8)
    assert plan(machine(tight), mixed_precision=False).batch_size == 8192
    assert plan(machine(tight)).batch_size == 16_384


def test_a_batch_size_of_the_users_own():
    p = plan(machine(), auto_batch=False, largest_batch=5000)
    assert p.batch_size == 5000
    assert p.reasons["batch_size"] == "AUTO_BATCH_SIZE is off"


def test_a_minibatch_that_does_not_fit_goes_through_in_pieces_and_stays_what_it_was():
    """0.7 * 10^8 = 7 * 10^7 bytes hold 8750 samples of 8000 bytes: pieces of 8192, the learning setting untouched."""
    tight = Gpu("NVIDIA H200", (9, 0), 10**9, 10**8)
    p = plan(machine(tight), mixed_precision=False, auto_batch=False, largest_batch=30_000)
    assert (p.batch_size, p.microbatch) == (30_000, 8192)
    assert p.reasons["microbatch"] == "memory holds 8,750 samples at once"
    assert plan(machine(H200), auto_batch=False, largest_batch=30_000).microbatch == 30_000


def test_a_gpu_that_others_fill_is_left_alone():
    full = replace(H200, free_bytes=2_000_000, other_processes=2)
    p = plan(machine(full))
    assert (p.device, p.precision, p.tier) == ("cpu", "fp32", "cpu")
    problem = "the NVIDIA H200 has 2.0 MB of 150.00 GB free, 2 other processes use it, too little for an update"
    assert p.reasons["device"] == problem
    with pytest.raises(UserError, match=f"DEVICE is cuda, but {problem}; free its memory"):
        plan(machine(full), device="cuda")
    assert plan(machine(replace(full, free_bytes=2_926_000))).device == "cuda", "256 * 8000 / 0.7 bytes suffice"


def test_what_does_not_depend_on_the_minibatch_needs_room_too():
    """0.7 * 10^9 - 6 * 10^8 = 10^8 bytes: 12,500 samples of 8000 bytes; a context of 10^8 bytes leaves 3,750."""
    tight = Gpu("NVIDIA H200", (9, 0), 2 * 10**9, 10**9)
    wishes = {"fixed_bytes": 600_000_000, "mixed_precision": False}
    assert plan(machine(tight), **wishes).batch_size == 8192
    assert plan(machine(replace(tight, context_bytes=10**8)), **wishes).batch_size == 2048
    assert plan(machine(tight), **{**wishes, "fixed_bytes": 699_000_000}).device == "cpu", "125 samples"
    assert plan(machine(tight), **wishes, joining_bytes=699_000_000).device == "cuda"
    assert plan(machine(tight), **wishes, joining_bytes=701_000_000).device == "cpu"


def test_a_small_rollout_fits_on_a_gpu_with_little_room():
    assert plan(machine(replace(H200, free_bytes=200_000)), samples=16).device == "cuda"


@pytest.mark.parametrize(
    ("changes", "gpu", "sentence"),
    [
        (
            {"precision": "bf16"},
            T4,
            r"PRECISION is bf16, but compute capability 7.5 \(Tesla T4\) has none, it begins at 8.0",
        ),
        (
            {"precision": "bf16"},
            None,
            f"PRECISION is bf16, but the update runs on the CPU, which has FP32 only .{NOTE}",
        ),
        ({"precision": "fp16", "device": "cpu"}, H200, "FP32 only .DEVICE is cpu.; set PRECISION to auto or fp32"),
        (
            {"precision": "fp16"},
            Gpu("old", (5, 2), 10**10, 10**10),
            "compute capability 5.2 .old. has none, it begins at 5.3",
        ),
        ({"precision": "bf16", "mixed_precision": False}, H200, "PRECISION is bf16, but USE_MIXED_PRECISION is False"),
        ({"largest_batch": 0}, H200, "BATCH_SIZE is 0; a minibatch has at least one sample"),
        ({"largest_batch": -8, "auto_batch": False}, None, "BATCH_SIZE is -8"),
    ],
)
def test_contradictory_settings_are_refused(changes, gpu, sentence):
    with pytest.raises(UserError, match=sentence):
        plan(machine(gpu), **changes)


@pytest.mark.parametrize(
    ("gpu", "wanted"), [(H200, "fp16"), (H200, "fp32"), (H200, "bf16"), (T4, "fp16"), (OLD, "fp16")]
)
def test_a_format_that_is_insisted_on(gpu, wanted):
    p = plan(machine(gpu), precision=wanted)
    assert (p.precision, p.reasons["precision"]) == (wanted, f"PRECISION is {wanted}")


def test_fp32_can_be_insisted_on_without_a_gpu():
    assert plan(machine(), precision="fp32").precision == "fp32"


def test_threads():
    p = plan(machine(cores=8), parallel_episodes=4)
    assert p.simulation_threads == 4
    assert p.reasons["simulation_threads"] == "one for each episode played at once (8 usable cores)"
    p = plan(machine(cores=2, cores_note="the control group's quota is 2 CPUs"), parallel_episodes=4)
    assert p.simulation_threads == p.update_threads == 2
    assert p.reasons["update_threads"] == "2 usable cores; the control group's quota is 2 CPUs"
    p = plan(machine(cores=8), parallel_episodes=16, simulation_threads=3, update_threads=9)
    assert (p.simulation_threads, p.update_threads) == (3, 9)
    assert p.reasons["simulation_threads"] == "SIMULATION_THREADS is 3"
    assert p.reasons["update_threads"] == "UPDATE_THREADS is 9, more than the 8 usable cores"
    assert plan(machine(cores=8)).update_threads == 8


@pytest.mark.parametrize(
    ("here", "allocator", "reason"),
    [
        (machine(H200), "expandable_segments:True", "less memory is lost"),
        (machine(H200, allocator="backend:cudaMallocAsync"), "backend:cudaMallocAsync", "the environment says so"),
        (machine(H200, system="Windows"), "default", "for Linux"),
        (machine(allocator="backend:cudaMallocAsync"), "default", "no GPU"),
    ],
)
def test_the_allocator(here, allocator, reason):
    p = plan(here)
    assert p.allocator == allocator
    assert reason in p.reasons["allocator"]


def test_compiling_and_capturing_are_tried_where_they_are_usual():
    p = plan(machine(H200))
    assert (p.compile, p.graph_capture, p.gradient_checkpointing) == (True, True, False)
    assert p.reasons["compile"] == "usual on this card"
    p = plan(machine_with(find_card("A40")))
    assert (p.compile, p.graph_capture) == (False, True)
    p = plan(machine())
    assert (p.compile, p.graph_capture) == (False, False)


CARDS_BY_HAND = {
    "T4": ("fp16", False, "low"),
    "V100 16GB": ("fp16", False, "low"),
    "V100 32GB": ("fp16", False, "medium"),
    "A30": ("bf16", True, "medium"),
    "A40": ("bf16", True, "high"),
    "A100 40GB": ("bf16", True, "a100"),
    "A100 80GB": ("bf16", True, "a100"),
    "RTX 3080": ("bf16", True, "low"),
    "RTX 3090": ("bf16", True, "medium"),
    "RTX 4080": ("bf16", True, "low"),
    "RTX 4090": ("bf16", True, "medium"),
    "L4": ("bf16", True, "medium"),
    "L40S": ("bf16", True, "high"),
    "H100 SXM": ("bf16", True, "h100"),
    "H100 PCIe": ("bf16", True, "h100"),
    "H200": ("bf16", True, "h100"),
    "B200": ("bf16", True, "h100"),
}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_of_the_catalogue_by_hand(card):
    p = plan(machine_with(card))
    assert (p.precision, p.tf32, p.tier) == CARDS_BY_HAND[card.name]
    assert (p.device, p.device_name, p.batch_size, p.microbatch) == ("cuda", card.driver_name, 32_768, 32_768)
    memory = int((card.gigabytes * 10**9 - 2**29) * 0.7) // 4000  # less the context that CUDA will take
    assert f"batch 32768: 62,000 samples, BATCH_SIZE 65,536, memory would allow {memory:,}" in p.lines()


def test_the_printed_plan_of_a_gpu():
    assert plan(machine(replace(H200, other_processes=1))).lines() == [
        "device cuda: a GPU is here (tier h100): NVIDIA H200 has 148.50 GB of 150.00 GB free, 1 other process uses it",
        "precision bf16: compute capability 9.0",
        "tf32 on: compute capability 9.0",
        "cudnn benchmark on: kernels are tried once for shapes that stay the same",
        "batch 32768: 62,000 samples, BATCH_SIZE 65,536, memory would allow 25,987,500",
        "microbatch 32768: the whole minibatch fits in memory",
        "parallel episodes 1: NUM_ENVS is 1; 2,048, usual on this card, are for policies that act on a GPU",
        "trajectory 190.0 MB an iteration: 1 instance with 160,000 rows, allocated at once for the GPU to read; "
        "48.00 GB free",
        "simulation threads 1: one for each episode played at once (8 usable cores)",
        "lockstep 1: no more episodes than threads",
        "collect on cpu: COLLECT_ON is cpu; a step of 1 instance takes 66.3 µs on the GPU, 1.3 µs in the compiled loop "
        "(predicted, not measured); auto takes the GPU with no number",
        "update threads 8: 8 usable cores",
        "update execution auto: the first update keeps the fastest that computes what eager steps do",
        "compile on: usual on this card",
        "graph capture on: one launch per step instead of about two hundred",
        "gradient checkpointing off: microbatches save memory without computing anything twice",
        "allocator expandable_segments:True: less memory is lost between blocks of different sizes",
    ]


def test_the_printed_plan_of_a_cpu_says_nothing_about_gpus():
    assert plan(machine()).lines() == [
        f"device cpu: {NOTE}",
        "precision fp32: the CPU updates in FP32",
        "batch 32768: 62,000 samples, BATCH_SIZE 65,536, memory would allow 4,199,999",  # 0.7 is a bit less in binary
        "microbatch 2048: activations of 2,048 samples stay in a core's caches; compiled steps cut it smaller",
        "parallel episodes 1: NUM_ENVS is 1",
        "trajectory 9.5 MB an iteration: 1 instance of 62,000 steps; 48.00 GB free",
        "simulation threads 1: one for each episode played at once (8 usable cores)",
        "lockstep 1: no more episodes than threads",
        "collect on cpu: COLLECT_ON is cpu",
        "update threads 8: 8 usable cores",
        "update execution numba: compiled kernels are faster than torch on the CPU, most of all for small networks",
    ]


def test_a_cpu_with_instructions_for_bf16_uses_them_when_told_to():
    has = machine(cpu_bf16="AVX512-BF16")
    assert plan(has).precision == "fp32"
    p = plan(has, precision="bf16")
    assert (p.precision, p.update_execution, p.batch_size, p.microbatch) == ("bf16", "eager", 32_768, 4096)
    assert p.reasons["precision"] == "PRECISION is bf16, and this CPU has AVX512-BF16"
    assert precision_lines(p, None)[0].startswith(f"No GPU ({NOTE}): updates run on the CPU in BF16 on 8 threads")
    assert plan(has, precision="fp32").precision == "fp32"
    for wishes, sentence in (
        ({"precision": "fp16"}, "PRECISION is fp16, but the update runs on the CPU, which has only BF16 beside FP32"),
        ({"precision": "bf16", "mixed_precision": False}, "USE_MIXED_PRECISION is False"),
        (
            {"precision": "bf16", "update_execution": "numba"},
            "numba, which knows only FP32, but PRECISION is bf16",
        ),
    ):
        with pytest.raises(UserError, match=sentence):
            plan(has, **wishes)


def test_a_cpu_compiles_steps_by_torch_when_told_to():
    p = plan(machine(), update_execution="torch_compile")
    assert (p.executions, p.compile, p.graph_capture) == (("torch_compile",), True, False)
    assert p.reasons["update_execution"] == "UPDATE_EXECUTION is torch_compile, checked against eager steps first"


def test_checkpointing_is_for_the_user_to_switch_on():
    p = plan(machine(H200), checkpointing=True)
    line = (
        "gradient checkpointing on: GRADIENT_CHECKPOINTING is on: activations are computed twice and take less memory"
    )
    assert p.gradient_checkpointing and line in p.lines()
    here = plan(machine(), checkpointing=True)
    assert here.update_execution == "eager" and line in here.lines()
    with pytest.raises(
        UserError, match="UPDATE_EXECUTION is numba, which has no GRADIENT_CHECKPOINTING; drop one of the two"
    ):
        plan(machine(), checkpointing=True, update_execution="numba")


@pytest.mark.parametrize(
    ("episodes", "threads", "whole", "expected", "reason"),
    [
        (1, 0, True, 1, "no more episodes than threads"),
        (8, 0, True, 1, "no more episodes than threads"),
        (9, 0, True, 8, "each part of the parameters is read once for all"),
        (2, 1, True, 8, "each part of the parameters is read once for all"),
        (9, 0, False, 1, "an instance that plays episode after episode has a loop to itself"),
    ],
)
def test_episodes_are_played_side_by_side_where_there_are_more_than_threads(episodes, threads, whole, expected, reason):
    p = plan(machine(), parallel_episodes=episodes, simulation_threads=threads, whole_episodes=whole)
    assert p.lockstep == expected
    assert reason in p.reasons["lockstep"]


def test_one_gpu_of_several_is_used():
    here = replace(machine(), gpus=(T4, H200))
    assert plan(here).device_name == "Tesla T4"
    another = "longstride-torchrun --nproc-per-node=2 would use all"
    assert plan(here).reasons["device"].startswith(f"a GPU is here, the first of 2; {another} (tier low)")


def test_every_choice_has_a_reason_and_the_plan_is_json():
    p = plan(machine(H200))
    content = p.as_json()
    assert json.loads(json.dumps(content)) == content
    assert set(content) - {"schema", "device_name", "tier", "usual", "reasons"} == set(content["reasons"])
    assert all(content["reasons"].values())
    assert content["batch_size"] == 32_768


def test_the_schema_of_plan_json():
    """Whoever changes a name or its meaning counts SCHEMA up."""
    content = plan(machine()).as_json()
    assert content["schema"] == 3
    assert list(content) == [
        *("schema", "device", "device_name", "tier", "usual", "precision", "tf32", "cudnn_benchmark", "batch_size"),
        *("microbatch", "parallel_episodes", "trajectory_bytes", "simulation_threads", "lockstep", "collect_on"),
        *("policy_states", "update_threads", "update_execution"),
        *("compile", "graph_capture", "gradient_checkpointing", "allocator", "reasons"),
    ]
    assert list(content["usual"]) == ["parallel_episodes", "minibatch", "compile"]


def test_the_block_about_memory():
    """1.5 of 150 decimal GB are taken: 1.0 %."""
    assert memory_lines(H200.name, H200.total_bytes, H200.free_bytes) == [
        "GPU Utilization (NVIDIA H200):",
        "   Total Memory: 150.00 GB",
        "   Allocated:    1.50 GB (1.0%)",
        "   Free:         148.50 GB (99.0%)",
    ]


def test_the_line_after_an_update():
    assert update_line(1.2345) == "Policy update complete - Total time: 1.23s"


def test_planning_does_not_ask_the_machine(monkeypatch):
    """A plan is a pure function: it works where asking would fail."""
    for module in ("psutil", "pynvml"):
        monkeypatch.setitem(sys.modules, module, None)
    assert plan(machine(H200)) == plan(machine(H200))


def test_how_steps_run_on_the_cpu():
    assert plan(machine()).update_execution == "numba"
    assert plan(machine(), widest_layer=513).update_execution == "eager"
    assert plan(machine(), widest_layer=513, update_execution="numba").executions == ("numba",)
    insisting = plan(machine(), update_execution="eager")
    assert (insisting.executions, insisting.reasons["update_execution"]) == (("eager",), "UPDATE_EXECUTION is eager")
    assert plan(machine(H200), device="cpu", update_execution="numba").update_execution == "numba"


@pytest.mark.parametrize("execution", ["graph", "torch_compile_graph"])
def test_what_is_for_a_gpu_is_refused_on_the_cpu(execution):
    refused = (
        f"UPDATE_EXECUTION is {execution}, which is for a GPU, but the update runs on the CPU \\(.+\\); set it to auto"
    )
    with pytest.raises(UserError, match=refused):
        plan(machine(), update_execution=execution)
    with pytest.raises(UserError, match="DEVICE is cpu"):
        plan(machine(H200), device="cpu", update_execution=execution)


def test_what_is_for_the_cpu_is_refused_on_a_gpu():
    with pytest.raises(UserError, match="UPDATE_EXECUTION is numba, which is for the CPU"):
        plan(machine(H200), update_execution="numba")


@pytest.mark.parametrize(
    ("here", "wanted", "executions", "parts"),
    [
        (machine(H200), "auto", ("eager", "graph", "torch_compile", "torch_compile_graph"), (True, True)),
        (machine_with(find_card("A40")), "auto", ("eager", "graph"), (False, True)),
        (machine(H200), "eager", ("eager",), (False, False)),
        (machine(H200), "graph", ("graph",), (False, True)),
        (machine_with(find_card("A40")), "torch_compile", ("torch_compile",), (True, False)),
        (machine(H200), "torch_compile_graph", ("torch_compile_graph",), (True, True)),
    ],
)
def test_how_steps_may_run_on_a_gpu(here, wanted, executions, parts):
    p = plan(here, update_execution=wanted, step_launches={True: 211, False: 180})
    assert (p.executions, (p.compile, p.graph_capture)) == (executions, parts)
    if p.graph_capture:
        assert p.reasons["graph_capture"] == "one launch per step instead of about 211"
    if wanted != "auto":
        assert p.reasons["update_execution"].startswith(f"UPDATE_EXECUTION is {wanted}")


def test_a_long_rollout_on_a_cpu_does_not_shrink_the_minibatch():
    """100 million decisions leave no room beside the rollout's bytes, but pieces of a minibatch need next to none."""
    found = plan(machine(), samples=10**8, fixed_bytes=10**11, largest_batch=1024)
    assert (found.batch_size, found.microbatch) == (1024, 1024)
