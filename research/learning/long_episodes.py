"""How well do long episodes choose among the policies of a run? The comparison at the end of finished runs, repeated.

Every policy that a run of `optima.py` compares plays long episodes both ways, by likeliest actions and by draws. Then
the comparison is repeated with some of these episodes, in random order. What it chooses is judged by its long-run cost,
where probabilities give it, else by as many other episodes: by how much, in percent, it is above the best of the
policies. `mean` is the mean of the late policies with its likeliest actions, which is chosen if nothing is shown. In a
run the best one in cut episodes plays, too; here it does so only if the number of episodes allows it.
Usage: python research/learning/long_episodes.py RUN ... [--episodes 32] [--budgets 24 32 40] [--repeats 200]
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import numpy as np
import torch
from safetensors.torch import load_file

import longstride
from longstride.policies.compiled.forward import align_params
from longstride.policies.networks import ActorCritic, restore_model
from longstride.simulators.loading import load_simulator
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.halving import Arm
from longstride.training.choice.long_episodes import look_again
from longstride.training.choice.mean_policy import MeanPolicy
from longstride.training.evaluation.compiled import CompiledPlayer
from research.learning.long_run import SOLVED, long_run_cost, probabilities
from research.learning.long_run_models import model_of
from research.learning.optima import METRIC, PROBLEMS

MEAN, COMPARED = Arm(1, False), 4
"""The arm that stays if nothing is shown, and policies that a run compares."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, choose, print a line of JSON for each run and the means of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of optima.py or gaps.py")
    parser.add_argument("--episodes", type=int, default=32, help="long episodes of each policy and way to act")
    parser.add_argument("--budgets", nargs="+", type=int, default=[24, 32, 40], help="long episodes of a comparison")
    parser.add_argument("--repeats", type=int, default=200, help="comparisons with each budget")
    parser.add_argument("--steps", type=int, default=50_000, help="most steps of a long episode")
    parser.add_argument("--most", type=int, help="jobs of each class; 200 for n_model and 45 otherwise")
    options, found = parser.parse_args(arguments), []
    for run in options.runs:
        name = run.name.rpartition("-")[0]
        if name not in PROBLEMS:
            parser.error(f"{run}: no folder of a run of these problems, such as runs/gaps/n_model-0")
        found.append(of_run(run, name, options))
        print(json.dumps({"run": run.name} | found[-1]), flush=True)
    print(json.dumps({"mean": {key: round(float(np.mean([f[key] for f in found])), 2) for key in found[0]}}))


def of_run(run: Path, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the gaps to the best policy: of the mean of the late ones, and on average with each budget."""
    simulator = load_simulator(*PROBLEMS[name]).simulator
    policies, network = policies_of(run, simulator)
    arms = [Arm(i, draws) for i in range(len(policies)) for draws in (False, True)]
    costs, truth = played(simulator, network, policies, arms, options)
    if PROBLEMS[name][0] in SOLVED:
        model = model_of(simulator, options.most or {"n_model": 200}.get(name, 45))
        truth = {arm: exact(network, model, policies[arm.candidate], arm.draws) for arm in arms}
    best, rng = min(truth.values()), np.random.default_rng(0)

    def gap(arm: Arm) -> float:
        return 100 * (truth[arm] / best - 1)

    gaps = {"mean": gap(MEAN)}
    for budget in options.budgets:
        chosen = [chosen_of(costs, arms, budget, rng) for _ in range(options.repeats)]
        gaps[f"{budget} episodes"] = float(np.mean([gap(arm) for arm in chosen]))
    return {key: round(value, 2) for key, value in gaps.items()}


def policies_of(run: Path, simulator: Any) -> tuple[list[Candidate], ActorCritic]:
    """Return the policies that a run compares at its end: the last one, the mean of the late ones, the best others."""
    last = run / "checkpoints" / "last"
    tensors, facts = load_file(max(last.glob("*.safetensors"))), json.loads(max(last.glob("*.json")).read_text())
    network = ActorCritic(longstride.load_policy(run).spec)
    restore_model(network, tensors)
    arrays, state = {name: tensor.numpy() for name, tensor in tensors.items()}, facts["judge"]
    kept, mean, iteration = Candidates(simulator.main_metric_lower_is_better), MeanPolicy(), facts["iteration"]
    kept.load_state_dict({n: a for n, a in arrays.items() if n.startswith("candidate")}, state["candidates"])
    mean.restore(arrays, state)
    if all(each.iteration != iteration for each in kept.kept):
        kept.add(Candidate(iteration, network.flat[: network.layout.actor_size].detach().numpy().copy()))
    newest, params = kept.kept[-1], mean.params
    assert params is not None, "a run with evaluations on the way has one"
    others = [each for each in kept.in_order() if each is not newest]
    return [newest, Candidate(iteration, params, [], newest.worst, True), *others][:COMPARED], network


def played(
    simulator: Any, network: ActorCritic, policies: list[Candidate], arms: list[Arm], options: argparse.Namespace
) -> tuple[dict[Arm, np.ndarray], dict[Arm, float]]:
    """Return the costs of the episodes of each arm, float64[episodes], and the mean of as many other episodes."""
    longest = min(options.steps, simulator.max_steps)
    player, found = CompiledPlayer(simulator, network.spec, 1), dict[str, dict[Arm, np.ndarray]]()
    for streams in ("long episodes", "further long episodes"):
        found[streams] = {}
        for arm in arms:
            params = align_params(policies[arm.candidate].params, network.spec)
            way = "trained_sampled" if arm.draws else "trained"
            each = player.play_each(way, params, range(options.episodes), 0, streams, longest)
            found[streams][arm] = np.array([one.record[METRIC] for one in each])
    costs, others = found.values()
    return costs, {arm: float(values.mean()) for arm, values in others.items()}


@torch.no_grad()
def exact(network: ActorCritic, model: Any, policy: Candidate, draws: bool) -> float:
    """Return the long-run cost of a policy."""
    network.flat[: len(policy.params)] = torch.from_numpy(policy.params)
    return long_run_cost(model, probabilities(network, model, not draws))[0]


def chosen_of(costs: dict[Arm, np.ndarray], arms: list[Arm], budget: int, rng: np.random.Generator) -> Arm:
    """Return what a comparison chooses with some episodes, all arms the same ones, in random order."""
    count = len(costs[MEAN])
    order = np.concatenate([rng.permutation(count) for _ in range(1 + budget // count)])

    def play(arm: Arm, episodes: range, longest: int) -> list[tuple[float | None, int]]:
        return [(float(costs[arm][order[episode]]), longest) for episode in episodes]

    unjudged = [None] * COMPARED
    return look_again(MEAN, MEAN, arms, play, float(budget), 1, True, unjudged).best


if __name__ == "__main__":
    main()
