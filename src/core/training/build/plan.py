"""From Config and simulator to the plan of a run, the lines that announce it, and torch set up by it."""

from dataclasses import asdict, replace
from pathlib import Path

import torch

from core.config import Config
from core.hardware.planning.host_memory import require_room
from core.hardware.planning.plan import Plan, make_plan
from core.hardware.planning.roofline import step_launches
from core.hardware.planning.update_memory import (
    BESIDE_A_GPU,
    MemoryEstimate,
    bytes_of_a_sample,
    estimate_memory,
    fixed_bytes,
    workspace_bytes,
)
from core.hardware.types import Gpu, Machine, PlanSettings
from core.learning.steps.cpu_kernels.scope import unsupported
from core.learning.torch_settings import apply_allocator, apply_global_settings
from core.policies.spec import PolicySpec, spec_for
from core.simulators.simulator import Simulator
from core.text import format_bytes
from core.training.build.algorithm import build_algorithm, build_schedule
from core.training.build.rollout_size import (
    copies_per_update,
    decisions_per_update,
    expected_samples,
    host_rollout,
    rollout_steps,
)
from core.training.display.messages import batch_line, memory_lines, precision_lines
from core.training.run_directory.files import write_json


def policy_spec(config: Config, simulator: Simulator) -> PolicySpec:
    """Return the spec of the policy that a run trains."""
    actor, critic = (
        (width,) * config.num_hidden_layers for width in (config.actor_hidden_size, config.critic_hidden_size)
    )
    return spec_for(simulator, actor, critic, config.activation)


def plan_run(config: Config, simulator: Simulator, machine: Machine) -> Plan:
    """Plan how a run uses a machine, which need not be this one.

    Raises:
        UserError: settings contradict each other or the machine.
    """
    return make_plan(machine, plan_settings(config, simulator))


def plan_settings(config: Config, simulator: Simulator) -> PlanSettings:
    """Return what a plan needs to know of a run."""
    spec, samples = policy_spec(config, simulator), decisions_per_update(config, simulator)
    copies, schedule = copies_per_update(config, simulator), build_schedule(config)
    whole = estimate_memory(spec, False, samples, 1, 1, copies)
    return PlanSettings(
        device=config.device,
        precision=config.precision,
        mixed_precision=config.use_mixed_precision,
        tf32=config.use_tf32,
        auto_batch=config.auto_batch_size,
        largest_batch=config.batch_size,
        samples=samples,
        bytes_per_sample={half: bytes_of_a_sample(spec, half, config.gradient_checkpointing) for half in (False, True)},
        fixed_bytes=fixed_bytes(spec, samples),
        joining_bytes=whole.held + whole.rollout + whole.joining,
        widest_layer=max(*spec.actor_sizes, *spec.critic_sizes),
        parallel_episodes=copies,
        parallel_reason=_why_so_many_copies(config, simulator),
        simulation_threads=config.simulation_threads,
        update_threads=config.update_threads,
        update_execution=config.update_execution,
        kernel_problem=unsupported(spec, build_algorithm(config), (schedule.start.loss, schedule.end.loss)),
        checkpointing=config.gradient_checkpointing,
        whole_episodes=not rollout_steps(config, simulator),
        step_launches={half: step_launches(spec, half) for half in (False, True)},
        rollout=host_rollout(config, simulator),
    )


def require_memory(config: Config, simulator: Simulator, plan: Plan, machine: Machine) -> None:
    """Check that the host holds what a round plays and what its update needs there, before that is allocated.

    Raises:
        UserError: it does not.
    """
    update = _update_on_the_host(config, simulator, plan)
    require_room(host_rollout(config, simulator), machine, plan.device == "cuda", update)


def peak_line(config: Config, simulator: Simulator, plan: Plan) -> str:
    """Return what a round takes of the host's memory at its peak, in words."""
    update = _update_on_the_host(config, simulator, plan)
    whole = format_bytes(plan.trajectory_bytes + update)
    return f"   memory {whole} at the peak of a round, {format_bytes(update)} of it for the update"


def _update_on_the_host(config: Config, simulator: Simulator, plan: Plan) -> int:
    """Return the bytes of the host's memory that an update takes beside the trajectories, at most."""
    samples, copies = decisions_per_update(config, simulator), copies_per_update(config, simulator)
    if plan.device == "cuda":
        return BESIDE_A_GPU * samples
    return update_memory(policy_spec(config, simulator), plan, None, samples, copies).peak


def update_memory(spec: PolicySpec, plan: Plan, gpu: Gpu | None, samples: int, copies: int) -> MemoryEstimate:
    """Predict the bytes of an update, on a GPU or (None) on the host."""
    workspace, workers = (workspace_bytes(gpu.capability), 1) if gpu else (0, plan.update_threads)
    return estimate_memory(
        spec,
        plan.precision != "fp32",
        samples,
        plan.batch_size,
        plan.microbatch,
        copies,
        workspace,
        workers,
        plan.gradient_checkpointing,
        host=gpu is None,
    )


def _why_so_many_copies(config: Config, simulator: Simulator) -> str:
    if config.episodes_per_update:
        return f"EPISODES_PER_UPDATE is {config.episodes_per_update}"
    if steps := rollout_steps(config, simulator):
        return f"one plays on for {steps:,} decisions"
    episode, together = expected_samples(simulator), decisions_per_update(config, simulator)
    return f"{together:,} decisions a round, about {episode:,} each"


def announce(plan: Plan, machine: Machine, config: Config) -> list[str]:
    """Return what is printed about a plan: the lines that users look for, then every choice with its reason."""
    lines = precision_lines(plan, machine.gpu.capability if machine.gpu else None)
    if config.auto_batch_size:
        lines.append(batch_line(plan))
    if plan.device == "cuda" and machine.gpu:
        lines += memory_lines(machine.gpu.name, machine.gpu.total_bytes, machine.gpu.free_bytes)
    return [*lines, "Plan:", *(f"   {line}" for line in plan.lines())]


def apply_plan(plan: Plan) -> Plan:
    """Set up torch as planned; return the plan as it holds, which may have lost what this GPU refuses."""
    torch.set_num_threads(1 if plan.device == "cpu" else plan.update_threads)
    apply_global_settings(plan.tf32, plan.cudnn_benchmark)
    if plan.allocator != "expandable_segments:True" or apply_allocator(plan.allocator):
        return plan
    return replace(
        plan, allocator="default", reasons={**plan.reasons, "allocator": "this GPU refuses expandable segments"}
    )


def write_plan(directory: Path, plan: Plan, machine: Machine) -> None:
    """Write plan.json: the plan, its reasons, and the machine that it was made for."""
    write_json(directory / "plan.json", {**plan.as_json(), "machine": asdict(machine)})
