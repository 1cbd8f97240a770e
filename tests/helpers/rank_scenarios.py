"""Trainings of toys by one process, or by several that share the work, and what the tests compare of them."""

import io
import time
from contextlib import contextmanager
from unittest import mock

import torch
from helpers.group_runs import GROUP
from helpers.rank_processes import set_place
from rich.console import Console

from longstride.config import Config
from longstride.errors import UserError
from longstride.learning.distributed import process_group
from longstride.learning.distributed.join import joined_ranks
from longstride.learning.distributed.launch import Launch
from longstride.learning.distributed.ranks import ALONE
from longstride.learning.distributed.shared_sums import can_share_memory
from longstride.settings import Settings
from longstride.training.assembly.run import build_run

SHOP = {
    "simulator": "oracles.toy_simulators:Shop",
    "training_episodes": 2,
    "num_envs": 4,
    "actor_hidden_size": 16,
    "critic_hidden_size": 16,
    "num_hidden_layers": 2,
    "batch_size": 32,
    "num_epochs": 2,
    "learning_rate_actor": 3e-3,
    "device": "cpu",
    "seed": 4,
    "simulation_threads": 1,
    "update_threads": 1,
    "entropy_coefficient": 0.01,
}
GROUPS = {"simulator": "helpers.short_shop:ShortShop", "algorithm": "grpo", "group_size": GROUP, "horizon": 20}

CASES = {
    "episodes": {"normalise_rewards": True, "evaluate_every": 2, "evaluation_episodes": 3},
    "cut episodes": {"rollout_steps": 45, "update_execution": "eager"},
    "stopped": {"rollout_steps": 45, "target_kl": 1e-4, "num_epochs": 4},
    "growing": {
        **{"simulator": "oracles.toy_simulators:Bandit", "num_envs": 0, "training_episodes": 100},
        **{"batch_size": 2048, "num_epochs": 1, "activation": "tanh"},
    },
    "mingru": {"policy_network": "mingru", "rollout_steps": 70, "batch_size": 300, "activation": "tanh"},
    "transformer": {"policy_network": "transformer", "rollout_steps": 70, "batch_size": 300, "num_hidden_layers": 1},
    "groups": {**GROUPS, "rollout_steps": 30, "kl_coefficient": 0.1, "num_envs": 2 * GROUP},
}
STOPS = {"growing": 3}
"""Iterations after which a run ends here; it would go on for long."""

SIZES = {name: 3 if name == "episodes" else 2 for name in CASES}
"""Ranks of each case. Four instances are no equal shares of three."""


def train_case(directory, ranks=ALONE, resume=False, stop_after=None, **changes):
    """Train; return the actor and critic after every optimiser step, and the updates' loss figures."""
    config = Config(**{**SHOP, **changes, "run_directory": str(directory)})
    run = build_run(Settings(config), resume, lambda text: None, ranks=ranks)
    stepper, steps = run.trainer.updater.stepper, []
    step, model = stepper.step, stepper.model

    def recorded(*arguments):
        report = step(*arguments)
        steps.append(torch.cat([model.flat.clone(), report]).numpy())
        return report

    stepper.step = recorded
    run.train(Console(file=io.StringIO()), lambda: stop_after is not None and run.trainer.iteration >= stop_after)
    return steps


@contextmanager
def ranks_here(rank, size, port, may_share_memory=True):
    """Join so many ranks of this launch, of which this process has to be one; gradients go by gloo, or as they may."""
    set_place(rank, size, port)
    possible = may_share_memory and process_group.can_share_memory()
    shares = mock.patch.object(process_group, "can_share_memory", lambda: possible)
    with shares, joined_ranks(Launch.from_environment()) as ranks:
        yield ranks


def scenarios(rank, folder, ports):
    """Train all cases, as two ranks or three; resume with other numbers of ranks; lose a rank."""
    ports, found = iter(ports), {}
    for size in (3, 2):
        port = next(ports)
        if rank >= size:
            continue
        with ranks_here(rank, size, port, may_share_memory=size == 2) as ranks:
            for name, changes in CASES.items():
                if SIZES[name] == size:
                    found[name] = train_case(folder / name, ranks, stop_after=STOPS.get(name), **changes)
            if size == 2:
                train_case(folder / "resumed", ranks, **RESUMED, stop_after=2)
            assert (ranks._sums is not None) == (size == 2 and can_share_memory())
    if rank == 0:
        train_case(folder / "resumed", resume=True, **RESUMED, stop_after=4)
        (folder / "alone is done").touch()
    while not (folder / "alone is done").exists():
        time.sleep(0.05)
    with ranks_here(rank, 3, next(ports)) as ranks:
        train_case(folder / "resumed", ranks, resume=True, **RESUMED)
    found["lost"] = lose_a_rank(rank, next(ports))
    return found


RESUMED = {"rollout_steps": 70, "policy_network": "mingru", "activation": "tanh", "batch_size": 300}
RESUMED |= {"normalise_rewards": True, "training_episodes": 6}


def lose_a_rank(rank, port):
    """Let the last of three ranks fail; return the sentence of this one, and the seconds until it came."""
    begin = time.monotonic()
    try:
        with ranks_here(rank, 3, port) as ranks:
            if rank == 2:
                raise UserError("The simulator broke its contract.")
            ranks.gather(rank)
    except UserError as error:
        return type(error).__name__, str(error), error.alone, time.monotonic() - begin
    return None
