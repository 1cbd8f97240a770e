"""From Config and simulator to a plan, what is printed about it, and what torch is set to."""

import re
from dataclasses import replace

import pytest
import torch

pytest.importorskip("pydantic")

from helpers.setups import set_up
from oracles.toy_simulators import Bandit, Shop

from longstride.config import Config
from longstride.hardware.planning.gpu_catalog import NOMINAL_HOST, find_card, machine_with
from longstride.learning import torch_settings as settings_of_torch
from longstride.policies.make_spec import spec_for
from longstride.simulators.loading import load_simulator
from longstride.text import counted, format_bytes
from longstride.training.assembly import plan as build_plan
from longstride.training.assembly.plan import announce, apply_plan, plan_settings

CPU = replace(NOMINAL_HOST, gpu_note="torch finds no usable NVIDIA GPU or driver")
H200 = machine_with(find_card("H200"))
SPEC = spec_for(Bandit(), (8,), (8,), "relu")


def plan_run(config, simulator, machine):
    return build_plan.plan_run(set_up(config, simulator), machine)


@pytest.fixture
def torch_settings():
    """Put torch's process-wide settings back."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    benchmark = torch.backends.cudnn.benchmark
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.benchmark = benchmark


def test_a_smaller_rollout_that_fits_has_an_instance_for_each_rank():
    setup, small = set_up(Config(), Shop()), replace(CPU, free_bytes=2 << 30, total_bytes=2 << 30)
    steps = re.fullmatch(r"--num-envs 1 --rollout-steps (\d+)", build_plan.flags_that_fit(setup, small))[1]
    flags = build_plan.flags_that_fit(setup, small, ranks=3)
    assert flags == f"--num-envs 3 --rollout-steps {steps}"


def test_the_lines_that_users_look_for_come_first_and_the_plan_after_them():
    simulator = load_simulator("process").simulator
    plan = plan_run(Config(), simulator, H200)
    lines = announce(plan, H200, Config())
    assert lines[:2] == ["Mixed Precision: BF16 enabled (Compute 9.0)", "H200 optimizations enabled (TF32: True)"]
    assert lines[2].startswith("Auto-adjusted batch size: 512 (")
    assert lines[3:7] == [
        "GPU Utilization (NVIDIA H200):",
        "   Total Memory: 141.00 GB",
        "   Allocated:    0.00 GB (0.0%)",
        "   Free:         141.00 GB (100.0%)",
    ]
    assert lines[7:] == [
        "Plan (--verbose prints every choice with its reason):",
        f"   collect {plan.parallel_episodes} instances on {counted(plan.simulation_threads, 'thread')}, "
        f"{format_bytes(plan.trajectory_bytes)} of trajectories an iteration",
        "   update bf16 on H200, minibatches of 512, the fastest kind of steps",
    ]
    verbose = announce(plan, H200, Config(), verbose=True)
    assert verbose == [*lines[:7], "Plan:", *(f"   {line}" for line in plan.lines())]
    assert len(plan.lines()) > 12


def states_lines(machine=H200, **changes):
    """Return the format of the states of a wide transformer, and the line about it."""
    shape = {"actor_hidden_size": 512, "critic_hidden_size": 64, "num_hidden_layers": 2, "context_length": 64}
    values = {"policy_network": "transformer", "attention_heads": 4, "num_envs": 1024, "rollout_steps": 64, **shape}
    plan = plan_run(Config(**{**values, "collect_on": "gpu", **changes}), Bandit(), machine)
    return plan.policy_states, [line for line in plan.lines() if line.startswith("policy states ")]


def test_a_wide_transformer_on_a_card_keeps_its_states_in_bf16_by_prediction():
    chosen, [line] = states_lines()
    assert chosen == "bf16"
    assert re.fullmatch(
        r"policy states bf16: a step of 512 instances takes [\d.]+ µs with states in BF16, [\d.]+ µs in FP32"
        r"; BF16 must be 1.05 times as fast \(predicted, not measured\)",
        line,
    )


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"precision": "fp32"}, ["policy states fp32: PRECISION is fp32"]),
        ({"use_mixed_precision": False}, ["policy states fp32: USE_MIXED_PRECISION is off"]),
        (
            {"actor_hidden_size": 48},
            ["policy states fp32: heads have 12 units, which is no multiple of 8"],
        ),
        ({"collect_on": "cpu"}, []),
        ({"policy_network": "mingru"}, ["policy states fp32: POLICY_NETWORK is mingru, which has no rings"]),
        ({"machine": CPU, "collect_on": "torch"}, []),
    ],
)
def test_states_are_otherwise_in_float32(changes, lines):
    assert states_lines(**changes) == ("fp32", lines)


def test_the_short_plan_of_a_cpu():
    plan = replace(plan_run(Config(num_epochs=1), Bandit(), CPU), parallel_episodes=1, simulation_threads=1)
    plan = replace(plan, update_threads=2, batch_size=2048, microbatch=1024, update_execution="numba")
    assert plan.short_lines() == [
        f"collect 1 instance on 1 thread, {format_bytes(plan.trajectory_bytes)} of trajectories an iteration",
        "update fp32 on the CPU, minibatches of 2,048 in microbatches of 1,024, compiled steps on 2 threads",
    ]
    card = replace(plan, collect_on="gpu")
    assert card.short_lines()[0].startswith("collect 1 instance on 1 thread, the policy answers on gpu, ")


def test_without_auto_batch_size_nothing_says_auto():
    config = Config(auto_batch_size=False)
    assert not any("Auto" in line for line in announce(plan_run(config, Bandit(), CPU), CPU, config))


@pytest.mark.parametrize(
    ("changes", "copies", "reason"),
    [
        ({"num_envs": 3}, 3, "NUM_ENVS is 3"),
        ({"rollout_steps": 25}, 1, "25 steps an iteration"),
        ({"rollout_steps": 25, "num_envs": 2}, 2, "NUM_ENVS is 2"),
        ({}, 32, "parts of an episode each, as rollouts grow"),
        (
            {"grow_rollouts": False},
            1024,
            "40,960 steps an iteration, about 40 each",
        ),  # 372,000 would be 9300 copies of the shop
    ],
)
def test_where_the_number_of_episodes_comes_from(changes, copies, reason):
    settings = plan_settings(set_up(Config(**changes), Shop()))
    assert (settings.parallel_episodes, settings.parallel_reason) == (copies, reason)


@pytest.mark.parametrize("card", ["T4", "H200", None])
def test_no_machine_changes_what_is_learned(card):
    """Minibatch and copies come from the user's file on every machine that has the memory for them."""
    machine = machine_with(find_card(card)) if card else CPU
    for changes in ({}, {"auto_batch_size": False, "batch_size": 5000}, {"num_envs": 7}):
        simulator = load_simulator("process").simulator
        here, there = (plan_run(Config(**changes), simulator, m) for m in (machine, CPU))
        assert (here.batch_size, here.parallel_episodes) == (there.batch_size, there.parallel_episodes)


def test_applying_a_plan_sets_torch_up(torch_settings, monkeypatch):
    told = []
    monkeypatch.setattr(build_plan, "apply_allocator", lambda settings: told.append(settings) or True)
    plan = plan_run(Config(update_threads=2), Bandit(), H200)
    wide = spec_for(Bandit(), (512, 512), (8,), "relu")
    assert apply_plan(plan, wide) is plan
    assert told == ["expandable_segments:True"]
    assert torch.get_num_threads() == 2
    apply_plan(plan, SPEC)
    assert torch.get_num_threads() == 1, "beside a GPU the host computes little"
    apply_plan(replace(plan, collect_on="torch"), SPEC)
    assert torch.get_num_threads() == 2
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cudnn.benchmark is True
    cpu = plan_run(Config(update_threads=2), Bandit(), CPU)
    assert apply_plan(cpu, wide) is cpu
    assert told == ["expandable_segments:True"] * 3, "a CPU run leaves CUDA's allocator alone"
    assert torch.get_num_threads() == 1, "on the CPU the microbatches are what is parallel"
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_plan_never_claims_an_allocator_that_the_gpu_refuses(torch_settings, monkeypatch):
    monkeypatch.setattr(build_plan, "apply_allocator", lambda settings: False)
    plan = apply_plan(plan_run(Config(), Bandit(), H200), SPEC)
    assert plan.allocator == "default"
    assert "   allocator default: this GPU refuses expandable segments" in announce(plan, H200, Config(), verbose=True)


def test_the_allocator_of_the_environment_is_left_as_it_is(torch_settings, monkeypatch):
    monkeypatch.setattr(build_plan, "apply_allocator", lambda settings: pytest.fail("changed"))
    plan = plan_run(Config(), Bandit(), replace(H200, allocator="max_split_size_mb:512"))
    assert apply_plan(plan, SPEC).allocator == "max_split_size_mb:512"


@pytest.mark.parametrize("refuses", [False, True])
def test_settings_of_the_allocator_are_tried_and_taken_back(monkeypatch, refuses):
    told = []
    monkeypatch.setattr(settings_of_torch, "_set_allocator", told.append)

    def empty(*shape, device):
        assert device == "cuda"
        if refuses:
            raise RuntimeError("CUDA driver error: operation not supported")

    monkeypatch.setattr(torch, "empty", empty)
    assert settings_of_torch.apply_allocator("expandable_segments:True") is not refuses
    assert told == ["expandable_segments:True", "expandable_segments:False"][: 1 + refuses]


def test_torch_here_has_the_function_that_sets_the_allocator():
    assert hasattr(torch._C, "_accelerator_setAllocatorSettings") or hasattr(
        torch.cuda.memory, "_set_allocator_settings"
    )
