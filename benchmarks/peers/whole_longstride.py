"""Whole training with this project, for end_to_end.py."""

import time

import numpy as np
import torch

from benchmarks.long_queue import LongQueue
from benchmarks.peers.work import (
    ACTIONS,
    CLIP_RANGE,
    ENTROPY_COEFFICIENT,
    GAMMA,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    OBSERVATIONS,
    VALUE_COEFFICIENT,
    Done,
    Work,
    count,
)
from longstride.learning.advantages import step_discounts
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import Updater
from longstride.policies.compiled.forward import align_params
from longstride.policies.families.mlp.family import MLP
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.seeding import stream
from longstride.simulators.spaces import Discrete


def train(work: Work) -> Done:
    """Train with the compiled loop and compiled steps; torch keeps to one thread, as in a run on the CPU."""
    torch.set_num_threads(1)
    model, updater = build(work)
    collector = EpisodeCollector(LongQueue(work.steps), model.spec, RolloutPlan(0, 1))

    def weights() -> np.ndarray:
        return align_params(model.flat[: model.layout.actor_size].numpy(), model.spec)

    compiling = collector.compile(weights()) + updater.compile()
    collecting, updating, collected, steps = [], [], 0, 0
    for number in range(work.rounds):
        played, seconds = collector.collect(weights(), number, 1)
        collecting.append(seconds)
        trajectory = played[0].trajectory
        begin = time.perf_counter()
        discounts = step_discounts(GAMMA, trajectory.elapsed, 1.0, "decision")
        rollout = RolloutBatch([trajectory], [discounts], [np.full(trajectory.steps, LAMBDA)])
        coefficients = Coefficients(1.0, updater.algorithm.coefficients)
        report = updater.update(rollout, coefficients, stream(0, "update", number))
        updating.append(time.perf_counter() - begin)
        collected, steps = collected + trajectory.steps, steps + report.optimizer_steps - report.skipped_steps
    parameters = count(model.parameters())
    counted = {"collected": collected, "optimizer_steps": steps, "minibatch": report.batch_size}
    return Done(collecting, updating, compiling, counted | {"parameters": parameters})


def build(work: Work) -> tuple[ActorCritic, Updater]:
    """Return the networks and what trains them."""
    model = ActorCritic(PolicySpec(OBSERVATIONS, Discrete(ACTIONS), tuple(work.actor), tuple(work.critic), "tanh", MLP))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    coefficients = PpoCoefficients(
        CLIP_RANGE, ENTROPY_COEFFICIENT, 2.0 * VALUE_COEFFICIENT
    )  # of half the squared error
    # as a plan for the CPU chooses
    microbatch, precision, execution = (4096, "bf16", "eager") if work.bf16 else (2048, "fp32", "numba")
    settings = UpdateSettings(
        epochs=work.epochs,
        batch_size=work.batch,
        learning_rate_actor=LEARNING_RATE,
        learning_rate_critic=LEARNING_RATE,
        max_grad_norm=MAX_GRAD_NORM,
        microbatch=microbatch,
        precision=precision,
        threads=work.threads,
        executions=(execution,),
    )
    return model, Updater(model, torch.device("cpu"), Ppo(LAMBDA, coefficients), settings)
