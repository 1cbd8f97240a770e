"""Settings of the machine."""

import threading
from typing import Literal

from pydantic import BaseModel, Field

from longstride.setting_groups.fields import FIELDS


class Machine(BaseModel):
    """The use of memory, processors, GPUs and hosts."""

    model_config = FIELDS

    auto_batch_size: bool = True
    """Choose the size of a minibatch. True takes the largest power of two within the samples, free memory and
    BATCH_SIZE; in a short run whose rollouts grow, at most a sixteenth of the first one, unless BATCH_SIZE is set.
    False takes BATCH_SIZE."""

    batch_size: int = Field(default=512, ge=1, le=65536)
    """Largest minibatch, in samples. Integer 1 .. 65536. Larger: fewer and less noisy steps, better use of a GPU."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the updates. "auto" uses an NVIDIA GPU with room for an update, "cpu" never, "cuda" always."""

    use_mixed_precision: bool = True
    """Use BF16 or FP16 for the matrix products of an update on a GPU. BF16 from compute capability 8.0 on, FP16 for
    7.x."""

    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    """Number format of an update. "auto" chooses the one of USE_MIXED_PRECISION. "bf16", "fp16" or "fp32" forces one,
    and is an error if the device lacks it. "bf16" on a CPU needs AVX512-BF16 or AMX; it is faster for wide layers,
    slower for small networks (docs/benchmarks.md)."""

    use_tf32: bool = True
    """Use TF32 for the remaining float32 matrix products. It needs compute capability 8.0."""

    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass. More time, less memory, the same results. Smaller microbatches, which
    the plan chooses by itself, save more, so use this only if they do not save enough."""

    grow_rollouts: bool = True
    """Let rollouts grow with the measured gradient noise. They begin with about 8,000 steps (32 instances; 8 of
    Gymnasium), and grow to at most 372,000 steps and 1/160 of the run. It applies if NUM_ENVS and ROLLOUT_STEPS are 0.
    Episodes older than ten times HORIZON are given up, unless any is terminated. Policies that start from a rule have
    it off."""

    num_envs: int = Field(default=0, ge=0, le=4096)
    """Environment instances of an iteration, in parallel on the cores. Integer 0 .. 4096. More: less noise in each
    update, fewer updates for the same data, more memory. 0: 32 if rollouts grow, 1 if ROLLOUT_STEPS is set; otherwise
    whole episodes of about 62,000 steps together if a policy starts from a rule, else 372,000 (fewer if they would take
    over 4 GiB)."""

    rollout_steps: int = Field(default=0, ge=0, le=10_000_000)
    """Steps of each environment in an iteration. Integer 0 .. 10000000. 0: the measured size if rollouts grow,
    otherwise one whole episode (2048 steps of Gymnasium). Above 0 an instance plays several episodes, and continues the
    last one in the next iteration. More: less noise in each update, fewer updates for the same time."""

    episode_time_limit: float = Field(default=3600.0, ge=0, le=threading.TIMEOUT_MAX)
    """Seconds after which collecting a rollout, or an episode of an evaluation, counts as an endless loop. The run then
    ends; in a rollout it also names the line. Number >= 0; 0 for no limit."""

    simulation_threads: int = Field(default=0, ge=0, le=4096)
    """Threads of the simulation, at most NUM_ENVS. Integer >= 0; 0 for all usable physical cores. On the CPU the result
    does not depend on them."""

    update_threads: int = Field(default=0, ge=0, le=4096)
    """Threads of an update on the CPU. Integer >= 0; 0 for all usable physical cores. The result does not depend on
    them."""

    collect_on: Literal["auto", "cpu", "gpu", "torch"] = "auto"
    """Device of the policy during collection. "cpu": the compiled loop. "gpu": the GPU evaluates the policy for half of
    all instances at once, for wide policies and many instances (docs/how-to/collect-on-a-gpu.md). "torch": the same on
    the CPU, for tests. "auto": the GPU if it is predicted to be 1.5 times as fast. Not for GRPO and Gymnasium. Results
    differ by rounding."""

    rollout_hosts: str = ""
    """Hosts that play the rollouts, through Ray. "auto" for this machine's cluster, "HOST:PORT" for another one,
    "local:2" for two players here, "" for this process. The results are the same if all processors are of one kind
    (docs/how-to/play-on-several-hosts.md)."""

    rollout_lag: int = Field(default=0, ge=0, le=1)
    """Number of updates that the playing policy is behind. Integer 0 or 1. With 1 the next rollout is played during the
    update; this needs rollouts of one size, and memory for two."""

    update_execution: Literal["auto", "eager", "numba", "torch_compile", "graph", "torch_compile_graph"] = "auto"
    """Execution of update steps. "eager": torch, operation by operation; "torch_compile": torch.compile. On the CPU
    also "numba": Longstride's FP32 kernels. On a GPU also "graph" (captured once, one launch per step) and
    "torch_compile_graph". "auto" on the CPU is "numba" for layers of at most 512 units, else "eager"; on a GPU it
    measures. Results differ by rounding."""
