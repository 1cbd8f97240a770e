"""Where the policy answers: predictions by hand, the choice, and what is refused."""

from dataclasses import replace

import pytest

from longstride.errors import UserError
from longstride.hardware.operations import Amount, Cost, Operations
from longstride.hardware.planning import collection
from longstride.hardware.planning.collection import (
    ANSWER_SECONDS,
    FAR_WEIGHT_SECONDS,
    MARGIN,
    NEAR_WEIGHTS,
    STEP_SECONDS,
    TURN_SECONDS,
    WEIGHT_SECONDS,
    batched_seconds,
    collect_on,
    crossover,
    loop_seconds,
    operation_seconds,
    policy_states,
)
from longstride.hardware.planning.gpu_catalog import find_card, machine_with
from longstride.hardware.planning.roofline import REPLAY_SECONDS
from longstride.hardware.types import CollectionWork, Gpu, PlanSettings

H200, NO_GPU = find_card("H200"), "torch finds no usable NVIDIA GPU or driver"
SETTINGS = PlanSettings(
    **{"device": "auto", "precision": "auto", "mixed_precision": True, "tf32": True, "auto_batch": True},
    **{"largest_batch": 512, "samples": 62_000, "bytes_per_sample": {False: 1, True: 1}, "widest_layer": 256},
    **{"parallel_episodes": 1000, "parallel_reason": "", "simulation_threads": 0, "update_threads": 0},
    collect_on="auto",
)


def passes(operations):
    """Return operations that move next to nothing."""
    return Operations.of([Cost()] * operations)


def mlp(width):
    return CollectionWork(weights=32 * width + 2 * width**2 + 8 * width, answer=passes(12), row_bytes=160)


def choose(wanted="auto", gpu=H200, streams=1000, work=None, threads=16):
    settings = replace(SETTINGS, collect_on=wanted, parallel_episodes=streams, collection=work or mlp(256))
    return collect_on(settings, gpu and machine_with(gpu).gpu, NO_GPU, True, threads, 8)


def test_the_compiled_loop_by_hand():
    """40 instances on 16 threads: three for the busiest, side by side, which share the reading of far weights."""
    small, large = CollectionWork(weights=100_000), CollectionWork(weights=NEAR_WEIGHTS + 3_000_000)
    assert loop_seconds(small, 40, 16, 8) == pytest.approx(3 * (STEP_SECONDS + 100_000 * WEIGHT_SECONDS))
    far = 3_000_000 * FAR_WEIGHT_SECONDS * (1 + 1 / 3)
    expected = 3 * (STEP_SECONDS + large.weights * WEIGHT_SECONDS + far)
    assert loop_seconds(large, 40, 16, 8) == pytest.approx(expected)


def test_batches_by_hand():
    """Two halves of 500: 32 instances on the busiest core, or a pass of 100 million weights at the peak of TF32.

    Its other operations take the shortest time but for one, which moves 10 MB a row at 4.8 TB/s.
    """
    none = CollectionWork(weights=0, row_bytes=0)
    assert batched_seconds(none, 1000, 16, H200, True) == pytest.approx(2 * (TURN_SECONDS + 32 * STEP_SECONDS))
    product = Cost(flops=Amount(2e8), traffic=Amount(0.0, 4 * 10**8))
    answers = passes(98).plus(Operations.of([product, Cost(traffic=Amount(1e7))]))
    large = CollectionWork(weights=10**8, answer=answers, row_bytes=4000)
    arithmetic, states, transfers = 2 * 10**8 * 500 / 494.5e12, 500 * 1e7 / 4.8e12, 500 * 4000 / 40e9
    answer = ANSWER_SECONDS + 98 * REPLAY_SECONDS + arithmetic + states + transfers
    assert batched_seconds(large, 1000, 16, H200, True) == pytest.approx(2 * answer)
    alone = (
        TURN_SECONDS + STEP_SECONDS + ANSWER_SECONDS + 98 * REPLAY_SECONDS + 4e8 / 4.8e12 + 1e7 / 4.8e12 + 4000 / 40e9
    )
    assert batched_seconds(large, 1, 16, H200, True) == pytest.approx(alone), "nothing to do meanwhile"


@pytest.mark.parametrize(("width", "low", "high"), [(256, 500, 1200), (512, 80, 200), (1024, 8, 40)])
def test_the_gpu_pays_from_fewer_instances_for_wider_policies(width, low, high):
    first = crossover(mlp(width), 16, 8, H200, True, 4096)
    assert low <= first <= high
    for streams in (first, first + 1, 4096):
        faster = MARGIN * batched_seconds(mlp(width), streams, 16, H200, True)
        assert faster < loop_seconds(mlp(width), streams, 16, 8)
    before = MARGIN * batched_seconds(mlp(width), first - 1, 16, H200, True)
    assert before >= loop_seconds(mlp(width), first - 1, 16, 8)


def test_more_cores_move_the_crossover_up():
    firsts = [crossover(mlp(512), threads, 8, H200, True, 4096) for threads in (4, 8, 16, 32)]
    assert firsts == sorted(firsts)
    assert len(set(firsts)) == 4
    assert crossover(mlp(64), 16, 8, H200, True, 4096) is None


def test_the_choice_is_that_of_the_predictions():
    first = crossover(mlp(256), 16, 8, H200, True, 4096)
    assert choose(streams=first)[0] == "gpu"
    where, reason = choose(streams=first - 1)
    assert where == "cpu"
    assert "(predicted, not measured)" in reason
    assert reason.endswith(f"auto takes the GPU with {first:,} or more")
    assert choose(work=mlp(16))[1].endswith("auto takes the GPU with no number")


def test_both_predictions_are_said_where_the_user_insists():
    for wanted in ("cpu", "gpu"):
        where, reason = choose(wanted)
        assert where == wanted
        assert reason.startswith(f"COLLECT_ON is {wanted}; a step of 1,000 instances takes ")


def test_without_a_gpu_the_loop_is_compiled():
    assert choose(gpu=None) == ("cpu", "no GPU")
    assert choose("cpu", gpu=None) == ("cpu", "COLLECT_ON is cpu")
    assert choose("torch", gpu=None) == ("torch", "COLLECT_ON is torch: the GPU's collector with torch on the CPU")


def test_a_gpu_that_is_demanded_and_not_there():
    with pytest.raises(UserError, match=rf"^COLLECT_ON is gpu, but {NO_GPU}; set it to auto or cpu \(torch runs"):
        choose("gpu", gpu=None)


@pytest.mark.parametrize("wanted", ["gpu", "torch"])
def test_a_run_that_no_batch_can_answer(wanted):
    work = replace(mlp(1024), problem="ALGORITHM is grpo")
    assert choose(work=work) == ("cpu", "ALGORITHM is grpo")
    with pytest.raises(UserError, match=f"^COLLECT_ON is {wanted}, but ALGORITHM is grpo; set it to auto or cpu.$"):
        choose(wanted, work=work)


def test_a_card_without_figures():
    unknown = Gpu("NVIDIA Something", (9, 0), 10**10, 10**10)
    settings = replace(SETTINGS, collection=mlp(1024))
    assert collect_on(settings, unknown, "", True, 16, 8) == ("cpu", "no figures of this GPU are known")
    insisting = replace(settings, collect_on="gpu")
    assert collection.collect_on(insisting, unknown, "", True, 16, 8) == ("gpu", "COLLECT_ON is gpu")


def ring(megabytes, launches=1):
    """Return work whose states in BF16 have half the bytes, and some operations more."""
    full, half = (Cost(traffic=Amount(size * 1e6)) for size in (megabytes, megabytes / 2))
    return CollectionWork(answer=Operations.of([full]), bf16_answer=Operations.of([half]).plus(passes(launches)))


def states(work, gpu=H200, place="gpu", streams=1000):
    settings = replace(SETTINGS, parallel_episodes=streams, collection=work)
    return policy_states(settings, gpu and machine_with(gpu).gpu, place, True)


def test_states_are_in_bf16_where_the_bytes_saved_take_longer_than_the_operations_added():
    """On an H200 500 rows of 0.1 MB take 10.4 us, in BF16 5.2 and 2 for each operation; 5 % is too little."""
    assert states(ring(0.1, launches=2))[0] == "bf16"
    chosen, reason = states(ring(0.1, launches=3))
    assert chosen == "fp32"
    assert reason == (
        "a step of 500 instances takes 11.2 µs with states in BF16, 10.4 µs in FP32; BF16 must be 1.05 times as fast "
        "(predicted, not measured)"
    )
    for ratio, chosen in ((0.99, "fp32"), (1.01, "bf16")):
        half = CollectionWork(answer=passes(1050), bf16_answer=passes(round(1000 / ratio)))
        assert states(half)[0] == chosen
    assert states(ring(0.1, launches=2), streams=2)[0] == "fp32", "of one row nothing is saved"


def test_the_place_of_the_policy_is_chosen_with_the_faster_states():
    """Two halves of 500 rows of 4 MB, which take the card longer than the cores take their steps."""
    plain, work = replace(ring(4), bf16_answer=Operations()), ring(4)
    saved = batched_seconds(plain, 1000, 64, H200, True) - batched_seconds(work, 1000, 64, H200, True)
    assert saved == pytest.approx(2 * (500 * 2e6 / 4.8e12 - REPLAY_SECONDS))
    slower = ring(4, launches=1000)
    assert batched_seconds(slower, 1000, 64, H200, True) == batched_seconds(plain, 1000, 64, H200, True)
    assert set(operation_seconds(plain, 500, H200, True)) == {"fp32"}


def test_products_in_float32_keep_their_peak():
    """Attention alone runs at the peak of BF16."""
    wide, attention = Cost(wide_flops=Amount(1e9)), Cost(flops=Amount(1e9))
    work = CollectionWork(answer=passes(1), bf16_answer=Operations.of([wide, attention]))
    seconds = operation_seconds(work, 500, H200, True)["bf16"]
    assert seconds == pytest.approx(5e11 / 494.5e12 + 5e11 / 989e12)


@pytest.mark.parametrize(
    ("work", "gpu", "reason"),
    [
        (ring(9.0), find_card("T4"), "compute capability 7.5 has no BF16, it begins at 8.0"),
        (CollectionWork(states_problem="PRECISION is fp32"), H200, "PRECISION is fp32"),
    ],
)
def test_why_states_stay_in_float32(work, gpu, reason):
    assert states(work, gpu) == ("fp32", reason)


def test_states_on_a_cpu_and_on_a_card_without_figures_are_in_float32():
    assert states(ring(9.0), place="cpu") == states(ring(9.0), None, "torch")
    assert states(ring(9.0), place="cpu") == ("fp32", "a CPU keeps them in float32")
    unknown = Gpu("NVIDIA Something", (9, 0), 10**10, 10**10)
    settings = replace(SETTINGS, collection=ring(9.0))
    assert policy_states(settings, unknown, "gpu", True) == ("fp32", "no figures of this GPU are known")
