"""What does the critic's error cost? One step of lookahead from the last policy of a run, with its critic and exactly.

Three policies are compared by their long-run costs: the likeliest actions of the last policy; the best action by one
step and then the critic's values; the same with the exact discounted values of the policy that draws its actions. If
the last one is at the optimum and the others are not, better values are what is missing.
Usage: python research/learning/lookahead.py RUN ... [--most 60], runs as for long_run.py
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch
from safetensors.torch import load_file

import longstride
from longstride.policies.networks import ActorCritic, restore_model
from research.learning.long_run import long_run_cost, probabilities, solved, under
from research.learning.long_run_models import Model

_HORIZONS = 5
"""Of policy evaluation: what is missing afterwards is below 1 %, and alike everywhere."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of optima.py")
    parser.add_argument("--most", type=int, default=60, help="jobs of each class of a network")
    options = parser.parse_args(arguments)
    for run, model, reference in solved(options.runs, options.most, parser):
        policies = compared(run, model)
        gaps = {kind: 100 * (long_run_cost(model, policy)[0] / reference - 1) for kind, policy in policies.items()}
        print(json.dumps({"run": run.name} | {f"{kind}, %": round(gap, 2) for kind, gap in gaps.items()}), flush=True)


def compared(run: Path, model: Model) -> dict[str, np.ndarray]:
    """Return the three policies, float64[S, actions] each."""
    last = run / "checkpoints" / "last"
    tensors, facts = load_file(max(last.glob("*.safetensors"))), json.loads(max(last.glob("*.json")).read_text())
    network = ActorCritic(longstride.load_policy(run).spec)
    restore_model(network, tensors)
    likeliest, drawn = (probabilities(network, model, greedy) for greedy in (True, False))
    interval = found(facts, "interval") or 1.0
    discount = found(facts, "gamma") ** (1.0 / (model.clock * interval))
    divisor = float(tensors["rewards.divisor"][0])
    with torch.no_grad():
        values = network.values(network.normalised(torch.from_numpy(model.states.astype(np.float32))))
        own = (values * network.tensors["value_std"] + network.tensors["value_mean"]).double().numpy()
    step, costs = under(model, drawn)
    exact = np.zeros(len(own))
    for _ in range(round(_HORIZONS / (1.0 - discount))):
        exact = discount * (step @ exact) - costs / divisor
    ahead = {"critic ahead": own, "exact ahead": exact}
    allowed = probabilities(network, model, False) > 0.0
    return {"likeliest": likeliest} | {
        kind: best_action(model, allowed, values, discount, divisor) for kind, values in ahead.items()
    }


def best_action(model: Model, allowed: np.ndarray, values: np.ndarray, discount: float, divisor: float) -> np.ndarray:
    """Return the policy that takes the best action by one step and then float64[S] values."""
    action_values = np.full(allowed.shape, -np.inf)
    for column, action in enumerate(model.actions):
        rows = np.flatnonzero(allowed[:, column])
        cost, moves = model.follows(rows, action)
        action_values[rows, column] = discount * sum(chance * values[to] for to, chance in moves) - cost / divisor
    return np.eye(len(model.actions))[action_values.argmax(axis=1)]


def found(facts: Any, name: str) -> Any:
    """Return the first value of a name in nested JSON objects."""
    if not isinstance(facts, dict):
        return None
    return facts.get(name) or next(filter(None, (found(each, name) for each in facts.values())), None)


if __name__ == "__main__":
    main()
