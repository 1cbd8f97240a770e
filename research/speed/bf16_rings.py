"""Rings of a transformer that plays on a GPU, in BF16 and in float32: bytes, operations, predicted speed, rounding.

The prediction is the planner's, for the actor of the preset large_transformer. Differences are those of
log-probabilities of all actions between forward passes on this CPU, which see the same observations; no GPU is needed.
An update in BF16 has its products of matrices and its attention in BF16.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from longstride.hardware.planning.collection import batched_seconds
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.types import CollectionWork
from longstride.learning.step_costs.count import count_answers
from longstride.learning.steps.step_parameters import StepParameters
from longstride.policies.batched_forward import TorchForward
from longstride.policies.families.transformer.family import TRANSFORMER
from longstride.policies.memory import Memory
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete

BEGINS = 0.005
"""Share of steps at which an episode begins."""


def transformer(width: int, blocks: int, context: int, actions: int) -> PolicySpec:
    """Return a policy of four observations with 16 heads."""
    return PolicySpec(
        4, Discrete(actions), (width,) * blocks, (width,) * blocks, "relu", TRANSFORMER, 0, context, 16, 4
    )


def costs(spec: PolicySpec, card_name: str, instances: list[int], threads: int) -> None:
    """Print a row for each format of the rings."""
    card = find_card(card_name)
    weights = sum(rows * columns for rows, columns in spec.matrices["actor"])
    full = CollectionWork(weights, count_answers(spec), row_bytes=4 * (4 + spec.action_space.outputs))
    for name, answer in (("FP32", full.answer), ("BF16", count_answers(spec, bf16_states=True))):
        work = replace(full, answer=answer)  # its products in float32; attention is bound by traffic in both formats
        speeds = [f"{n / batched_seconds(work, n, threads, card, tf32=True):,.0f}" for n in instances]
        megabytes = answer.sums.traffic.per_row / 1e6
        print(f"| {spec.context_length} | {name} | {megabytes:.1f} MB | {answer.launches} | {' | '.join(speeds)} |")


def model_of(spec: PolicySpec, seed: int) -> ActorCritic:
    """Return a model whose logits are not next to 0, as those of a trained one."""
    model, generator = ActorCritic(spec), torch.Generator().manual_seed(seed)
    initialise(model, "orthogonal", generator)
    weight, _ = model.layers("actor")[-1]
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[0] ** 0.5)
    return model


def played(model: ActorCritic, observations: np.ndarray, begins: np.ndarray, bf16_states: bool) -> Tensor:
    """Return float32[rows, steps, actions], log-probabilities step by step."""
    forward = TorchForward(model.spec, 1, len(observations), torch.device("cpu"), bf16_states=bf16_states)
    forward.load(model.flat[: model.layout.actor_size].detach().numpy())
    found = []
    for step in range(observations.shape[1]):
        forward.observations[0], forward.begins[0] = observations[:, step], begins[:, step]
        forward.launch(0)
        found.append(torch.from_numpy(forward.outputs[0]).log_softmax(1))
    return torch.stack(found, dim=1)


@torch.no_grad()
def learned(model: ActorCritic, observations: np.ndarray, begins: np.ndarray) -> Tensor:
    """Return the same as an update in BF16 computes them, all steps at once."""
    parameters = StepParameters(model, model.layout.names("actor"), "bf16")
    parameters.refresh()
    x = model.normalise(torch.from_numpy(observations).reshape(-1, observations.shape[2]))
    memory = Memory(torch.zeros(len(observations), model.spec.state_size), torch.from_numpy(begins).reshape(-1, 1))
    logits = model.logits(x, tensors={**model.tensors, **parameters.leaves}, memory=memory)
    return logits.view(*observations.shape[:2], -1).log_softmax(2)


def differences(spec: PolicySpec, seed: int, rows: int, steps: int) -> str:
    """Return the differences of log-probabilities in words."""
    model, rng = model_of(spec, seed), np.random.default_rng(seed)
    observations = rng.normal(size=(rows, steps, spec.observation_size)).astype(np.float32)
    begins = rng.random((rows, steps, 1)) < BEGINS
    begins[:, 0] = True
    half, full = (played(model, observations, begins, bf16_states) for bf16_states in (True, False))
    update = learned(model, observations, begins)
    rounding = (half - full).abs()
    thirds = ", ".join(f"{part.mean():.4f}" for part in rounding.tensor_split(3, dim=1))
    updates = ", ".join(
        f"{(update - each).abs().max():.4f} from {name}" for each, name in ((full, "FP32"), (half, "BF16"))
    )
    return f"largest {rounding.max():.4f}, means by thirds {thirds}; an update in BF16 differs by {updates}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", default="H200")
    parser.add_argument("--threads", type=int, default=16, help="of the simulator, for the predicted speed")
    parser.add_argument("--contexts", type=int, nargs="+", default=[20, 128])
    parser.add_argument("--instances", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--width", type=int, default=256, help="units of the four blocks that are run")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    print(f"steps/s predicted for one {arguments.card}, {arguments.threads} threads")
    for context in arguments.contexts:
        costs(transformer(1024, 8, context, 2), arguments.card, arguments.instances, arguments.threads)
    for context in arguments.contexts:
        spec = transformer(arguments.width, 4, context, 8)
        for seed in arguments.seeds:
            print(f"context {context}, seed {seed}: {differences(spec, seed, arguments.rows, arguments.steps)}")


if __name__ == "__main__":
    main()
