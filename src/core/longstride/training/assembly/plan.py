"""Plan of a run: what it needs from a machine, the lines that announce it, and torch set up by it."""

from dataclasses import replace
from typing import NamedTuple

import torch

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.operations import NO_OPERATIONS
from longstride.hardware.planning.host_memory import has_room, require_room
from longstride.hardware.planning.plan import Plan, make_plan
from longstride.hardware.planning.second_gpu import format_second_gpu
from longstride.hardware.planning.update_memory import BESIDE_A_GPU, workspace_bytes
from longstride.hardware.types import CollectionWork, Gpu, Machine, PlanSettings
from longstride.learning.distributed.ranks import Ranks
from longstride.learning.distributed.shares import share_of
from longstride.learning.step_costs.count import count_answers
from longstride.learning.step_costs.prediction import predict_update, second_gpu_of
from longstride.learning.step_costs.update_memory import (
    MemoryEstimate,
    bytes_of_a_sample,
    estimate_memory,
    fixed_bytes,
    playing_bytes,
)
from longstride.learning.step_costs.work import ByPrecision, step_launches
from longstride.learning.steps.cpu_kernels.stepper import unsupported
from longstride.learning.torch_settings import apply_allocator, apply_global_settings
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.spec import PolicySpec
from longstride.text import format_bytes
from longstride.training.assembly.setup import MINIBATCHES, Setup
from longstride.training.display.messages import batch_line, memory_lines, precision_lines, rank_lines

_FEWEST_STEPS, _MOST_STEPS = 64, 1 << 23
"""Steps of a rollout below and above which no size is named; ROLLOUT_STEPS is at most 10 million."""

_MANY = 1 << 18
"""Parameters of an actor from which several threads of the host are faster for 1,024 observations (about 10 ms)."""


def plan_run(setup: Setup, machine: Machine) -> Plan:
    """Plan how a run uses a machine, which need not be this one.

    Raises:
        UserError: settings contradict each other or the machine.
    """
    return make_plan(machine, plan_settings(setup))


class RankPlan(NamedTuple):
    """What a rank does."""

    part: Setup  # the setup with the instances and the memory of a rank
    plan: Plan  # use of the machine, for which torch is set up
    lines: list[str]  # the plan, for people


def plan_rank(setup: Setup, machine: Machine, ranks: Ranks, verbose: bool) -> RankPlan:
    """Plan how a rank uses its share of a machine, and set torch up by it.

    Raises:
        UserError: as for :func:`plan_part`.
    """
    part, plan = part_of(setup, ranks), plan_part(setup, machine, ranks)
    plan = apply_plan(plan, setup.spec)
    ranks.use_device(plan.device)
    lines = announce(plan, machine, setup.config, verbose)
    return RankPlan(part, plan, [*lines, peak_line(part, plan), *exchange_lines(setup, plan, machine, ranks)])


def plan_part(setup: Setup, machine: Machine, ranks: Ranks) -> Plan:
    """Plan how a rank uses its share of a machine; all ranks plan the same update.

    Raises:
        UserError: as for :func:`plan_run`, or the ranks would not take the same steps.
    """
    if ranks.size == 1:
        return plan_run(setup, machine)
    size = part_of(setup, ranks).size
    reason = f"the largest part of {setup.size.instances:,} that a process has ({size.reason})"
    settings = replace(
        plan_settings(setup), parallel_episodes=size.instances, parallel_reason=reason, rollout=size.memory
    )
    return _agreed(make_plan(machine, settings), ranks)


def part_of(setup: Setup, ranks: Ranks) -> Setup:
    """Return a setup with the instances and the host memory of a rank, that of the largest share for all.

    So each plans the same, and their loops are compiled once.
    """
    size = setup.size
    count = share_of(size.instances, size.group_size, ranks.size - 1, ranks.size).count
    memory, parts = size.memory, ("copies", "bytes", "state_bytes", "pinned_bytes")
    shares = {name: getattr(memory, name) * count // size.instances for name in parts}
    return replace(setup, size=replace(size, instances=count, memory=replace(memory, **shares)))


def _agreed(plan: Plan, ranks: Ranks) -> Plan:
    """Return a plan with the smallest minibatch of all ranks.

    Raises:
        UserError: the ranks would update on different devices, or in different ways.
    """
    plans = ranks.gather(plan)
    for name in ("device", "precision", "update_execution", "tf32"):
        values = [getattr(each, name) for each in plans]
        if other := next((rank for rank, value in enumerate(values) if value != values[0]), 0):
            raise UserError(
                f"Rank 0 would update with {name.replace('_', ' ')} {values[0]} ({plans[0].reasons[name]}), rank "
                f"{other} with {values[other]} ({plans[other].reasons[name]}); start one process for each GPU with "
                "room, or set DEVICE, PRECISION or UPDATE_EXECUTION."
            )
    batch = min(each.batch_size for each in plans)
    return replace(plan, batch_size=batch, microbatch=min(plan.microbatch, batch))


def plan_settings(setup: Setup) -> PlanSettings:
    """Return what a plan depends on beside the machine."""
    config, spec, size = setup.config, setup.spec, setup.size
    losses = setup.schedule.start.loss, setup.schedule.end.loss
    whole = estimate_memory(spec, False, size.samples, 1, 1, size.instances)
    return PlanSettings(
        device=config.device,
        precision=config.precision,
        mixed_precision=config.use_mixed_precision,
        tf32=config.use_tf32,
        auto_batch=config.auto_batch_size,
        largest_batch=setup.largest_batch,
        batch_reason="" if setup.largest_batch == config.batch_size else f"at least {MINIBATCHES} minibatches",
        samples=size.samples,
        bytes_per_sample=ByPrecision(lambda half: bytes_of_a_sample(spec, half, config.gradient_checkpointing)),
        fixed_bytes=fixed_bytes(spec, size.samples),
        joining_bytes=whole.held + whole.rollout + whole.before_steps,
        widest_layer=max(*spec.actor_sizes, *spec.critic_sizes),
        parallel_episodes=size.instances,
        parallel_reason=size.reason,
        simulation_threads=config.simulation_threads,
        update_threads=config.update_threads,
        update_execution=config.update_execution,
        kernel_problem=unsupported(spec, setup.algorithm, losses),
        varying_shapes="lists of actions differ in length from step to step" if spec.scores_actions else "",
        checkpointing=config.gradient_checkpointing,
        whole_episodes=not size.steps,
        step_launches=ByPrecision(lambda half: step_launches(spec, half)),
        rollout=setup.size.memory,
        collect_on=config.collect_on,
        collection=collection_work(setup),
    )


def collection_work(setup: Setup) -> CollectionWork:
    """Return what the policy computes while rollouts are collected, or why no batch can answer."""
    config, spec = setup.config, setup.spec
    problem = ""
    if setup.has_players:
        problem = "ROLLOUT_HOSTS and ROLLOUT_LAG play in the compiled loop"
    elif not setup.simulator.compiled:
        problem = "the environments are Gymnasium's, which Python steps one after another"
    elif setup.size.group_size > 1:
        problem = f"ALGORITHM is {config.algorithm}, whose groups only the compiled loop plays"
    elif spec.scores_actions:
        problem = f"POLICY_NETWORK is {spec.family.name}, which has no forward pass for batches of single steps"
    states_problem = problem or _states_problem(setup)
    return CollectionWork(
        weights=sum(inputs * outputs for inputs, outputs in spec.matrices["actor"]),
        answer=NO_OPERATIONS if problem else count_answers(spec),
        bf16_answer=NO_OPERATIONS if states_problem else count_answers(spec, bf16_states=True),
        states_problem=states_problem,
        row_bytes=4 * (spec.observation_size + spec.action_space.outputs),
        card_bytes=playing_bytes(spec, setup.size.instances),
        problem=problem,
    )


def _states_problem(setup: Setup) -> str:
    """Return why a policy on a GPU does not keep its states in BF16, a phrase; empty if it may."""
    config, in_place = setup.config, TORCH_FAMILIES[setup.spec.family.name].in_place
    if in_place is None:
        return f"POLICY_NETWORK is {setup.spec.family.name}, which has no rings"
    if not config.use_mixed_precision:
        return "USE_MIXED_PRECISION is off"
    if config.precision in ("fp32", "fp16"):
        return f"PRECISION is {config.precision}"
    return in_place.bf16_problem(setup.spec)


def require_memory(setup: Setup, plan: Plan, machine: Machine, ranks: int = 1) -> None:
    """Check before anything is allocated that the host has memory for an iteration, or for that of one of some ranks.

    Raises:
        UserError: it does not; the sentence names a size that does.
    """
    try:
        require_room(setup.size.memory, machine, plan.device == "cuda", _update_on_host(setup, plan))
    except UserError as error:
        flags = flags_that_fit(setup, machine, ranks)
        raise UserError(f"{error} It fits with {flags}." if flags else str(error)) from None


def flags_that_fit(setup: Setup, machine: Machine, ranks: int = 1) -> str:
    """Return flags of a smaller rollout for which the host has memory: the longest power of two; empty for none.

    Each of some ranks has a group of instances, and the machine is its share.
    """
    instances, steps = setup.size.group_size, 1 << max(setup.size.expected_steps.bit_length() - 1, 0)
    steps = min(steps, _MOST_STEPS)
    while steps >= _FEWEST_STEPS:
        smaller = setup.changed(num_envs=instances, rollout_steps=steps)
        plan = plan_run(smaller, machine)
        update = _update_on_host(smaller, plan)
        if has_room(smaller.size.memory, machine, plan.device == "cuda", update):
            return f"--num-envs {ranks * instances} --rollout-steps {steps}"
        steps //= 2
    return ""


def announce(plan: Plan, machine: Machine, config: Config, verbose: bool = False) -> list[str]:
    """Return what is printed about a plan: the lines that users look for, then a few about the whole.

    ``verbose`` prints every choice with its reason.
    """
    lines = precision_lines(plan, machine.gpu.capability if machine.gpu else None)
    if config.auto_batch_size:
        lines.append(batch_line(plan))
    if plan.device == "cuda" and machine.gpu:
        lines += memory_lines(machine.gpu.name, machine.gpu.total_bytes, machine.gpu.free_bytes)
    head = "Plan:" if verbose else "Plan (--verbose prints every choice with its reason):"
    return [*lines, head, *(f"   {line}" for line in (plan.lines() if verbose else plan.short_lines()))]


def peak_line(setup: Setup, plan: Plan) -> str:
    """Return the host memory of an iteration at its peak, for people."""
    update = _update_on_host(setup, plan)
    whole = format_bytes(plan.trajectory_bytes + update)
    return f"   memory {whole} at the peak of an iteration, {format_bytes(update)} of it for the update"


def _update_on_host(setup: Setup, plan: Plan) -> int:
    """Return the most bytes of host memory that an update takes beside the trajectories."""
    if plan.device == "cuda":
        return BESIDE_A_GPU * setup.size.samples
    return update_memory(setup.spec, plan, None, setup.size.samples, setup.size.instances).peak


def update_memory(spec: PolicySpec, plan: Plan, gpu: Gpu | None, samples: int, instances: int) -> MemoryEstimate:
    """Predict the bytes of an update, on a GPU or (None) on the host."""
    collects = plan.collect_on == "gpu"
    workspace, workers = (workspace_bytes(gpu.capability, collects), 1) if gpu else (0, plan.update_threads)
    return estimate_memory(
        spec,
        plan.precision != "fp32",
        samples,
        plan.batch_size,
        plan.microbatch,
        instances,
        workspace,
        workers,
        plan.gradient_checkpointing,
        host=gpu is None,
        on_card=gpu is not None,
        plays=collects,
    )


def apply_plan(plan: Plan, spec: PolicySpec) -> Plan:
    """Set up torch for a policy as planned; return the plan as it holds, without what this GPU refuses.

    Beside a GPU torch computes little on the host: on a busy machine each operation would wait for the last thread.
    """
    one = plan.device == "cpu" or (plan.collect_on != "torch" and spec.actor_parameters < _MANY)
    torch.set_num_threads(1 if one else plan.update_threads)
    apply_global_settings(plan.tf32, plan.cudnn_benchmark)
    if plan.allocator != "expandable_segments:True" or apply_allocator(plan.allocator):
        return plan
    reasons = {**plan.reasons, "allocator": "this GPU refuses expandable segments"}
    return replace(plan, allocator="default", reasons=reasons)


def exchange_lines(setup: Setup, plan: Plan, machine: Machine, ranks: Ranks) -> list[str]:
    """Return what several ranks exchange, and on GPUs whether a second one is predicted to bring anything."""
    gpu = machine.gpu if plan.device == "cuda" else None
    lines = rank_lines(ranks.size, setup.size.instances, 4 * setup.spec.layout.size, "NCCL" if gpu else "gloo")
    if not lines or gpu is None:
        return lines
    prediction = predict_update(setup.spec, plan, gpu, setup.size.samples, setup.config.num_epochs)
    second = second_gpu_of(prediction, setup.spec, gpu)
    return [*lines, format_second_gpu(second, setup.size.instances)] if second and not second.is_worth_it else lines
