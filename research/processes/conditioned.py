"""Is one policy that sees the weight as good as a policy for each weight of a front, decision by decision?

Policies for several weights of cost and cycle time are trained as ``--mode front`` trains them. A policy that sees the
weight (`conditioned_process.py`) gets as many decisions as all of them together, and as many as two of them. The weight
is drawn in each window of an episode, from nine even steps of the logarithm over the range of the front. All play the
same random streams: at the weights of the front, and at those between, where the best of the separate policies for that
weight is the rival. A difference is a mean over episodes and training seeds, with its paired 95 % interval over the
episodes. ``two_servers`` is that of `costs.py`, whose optimum is computed.

Trainings that are done are not repeated.

Usage: python research/processes/conditioned.py FOLDER --problem loan_desk --episodes 10 --seeds 0 1
"""

import argparse
import json
import shutil
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numba.core.errors import NumbaExperimentalFeatureWarning

sys.path.insert(0, str(Path(__file__).resolve().parent))

import costs
from conditioned_process import Conditioned, PerWeight, level_and_spread

from longstride import Hyperparameters, train
from longstride.process.front.pair import SPAN, Pair, even_weight
from longstride.process.kernel.aims.arrays import length_of_hour
from longstride.process.load import make_process
from longstride.process.read_aims import changed
from longstride.process.scenario.aims import Costs
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import load_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.training.assembly.last_check import with_untrained
from longstride.training.evaluation.compiled import CompiledPlayer, Records
from longstride.training.evaluation.statistics import paired_difference
from longstride.training.evaluation.trained_policy import load_trained_policy

PAIR = Pair(("cost_per_case", "mean_cycle_time"), ("cost", "cycle_time"))
TRAINED_AT = np.linspace(-1.0, 1.0, 9)
"""Exponents of the range of the front (16) of the weights that the conditioned policy is trained for."""

LOAN_DESK = Costs(
    everyone=35.0,
    per_hour={"Finn (trainee)": 20.0, "Rosa (manager)": 90.0, "Sam (manager)": 90.0, "Tess (manager)": 90.0},
    per_task={"Appraise property": 12.0},
)
"""Those of the page on costs."""

RATE, PRICE = 0.3, 14.0
"""Arrivals and the price of the fast server of ``two_servers``."""

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Study:
    """A problem, and how it is trained and played."""

    options: argparse.Namespace
    file: Path  # scenario
    scenario: Scenario
    even: float  # weight at which both quantities of the usual rule's mean case count the same

    @property
    def weights(self) -> list[float]:
        """Weights of the front."""
        return [self.at(e) for e in np.linspace(-1.0, 1.0, self.options.points)]

    @property
    def between(self) -> list[float]:
        """Weights between those of the front."""
        exponents = np.linspace(-1.0, 1.0, 2 * self.options.points - 1)
        return [self.at(e) for e in exponents[1::2]]

    def at(self, exponent: float) -> float:
        """Return the weight of an exponent, -1 .. 1."""
        return float(f"{self.even * SPAN**exponent:.3g}")

    def conditioned(self, weights: list[float], for_training: bool) -> Conditioned:
        """Return the simulator of weights that a policy sees."""
        options = self.options
        inputs = (np.log(np.array(weights) / self.even) / np.log(SPAN))[:, None]
        rewards = self._rewards(weights) if for_training else None
        windows = options.windows if for_training else 1
        return Conditioned(self.scenario, PAIR, weights, inputs, self.even, rewards, windows, options.prior)

    def objective(self, records: Records, weight: float) -> list[float]:
        """Return the objective of a weight in each episode."""
        hour = length_of_hour(self.scenario)
        return [r[PAIR.metrics[0]] + weight * r[PAIR.metrics[1]] / hour for r in records]

    def _rewards(self, weights: list[float]) -> list[tuple[float, float]]:
        """Return what is subtracted from the rewards of each weight for a time unit, and their factor."""
        if self.options.scale == "none":
            return [(0.0, 1.0)] * len(weights)
        simulators = [ProcessSimulator(PAIR.on(self.scenario, weight)) for weight in weights]
        figures = [level_and_spread(simulator, "spt", 0.99) for simulator in simulators]
        level = self.options.scale == "level and spread"
        unit = fmean(spread for _, spread in figures)
        return [(rate * level, unit / spread) for rate, spread in figures]


def settings(options: argparse.Namespace, episodes: int, seed: int) -> Hyperparameters:
    """Return the settings of a training."""
    return Hyperparameters(
        training_episodes=episodes, seed=seed, simulation_threads=1, update_threads=1, **json.loads(options.settings)
    )


def trained(directory: Path, simulator: Any, options: argparse.Namespace, episodes: int, seed: int) -> float:
    """Train, unless that is done; return the seconds that it took."""
    done = directory.with_name(f"{directory.name}.json")
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        began = time.monotonic()
        algorithm = per_weight if options.per_weight and isinstance(simulator, Conditioned) else None
        made = settings(options, episodes, seed)
        train(simulator, made, run_directory=directory, quiet=True, report=False, algorithm=algorithm)
        done.write_text(json.dumps({"seconds": time.monotonic() - began}), encoding="utf-8")
        print(f"  {directory.name}: {episodes} episodes, {time.monotonic() - began:.0f} s", flush=True)
    return float(json.loads(done.read_text(encoding="utf-8"))["seconds"])


def per_weight(ppo: Any) -> PerWeight:
    """Return PPO that standardises advantages for each weight by itself."""
    return PerWeight(ppo.gae_lambda, ppo.coefficients)


class Player:
    """Plays policies at weights."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def play(self, directory: Path, simulator: Any, untrained: bool = False) -> Records:
        """Return the episodes of a run's policy on a simulator, the same random streams for all."""
        policy = load_trained_policy(directory)
        params = policy.actor_params
        if untrained:
            params = with_untrained(policy, directory, simulator).untrained_params
        player = CompiledPlayer(simulator, policy.spec, 1)
        return player.play("trained", params, self._study.options.evaluation_episodes, 0)[0]


def hypervolume(points: Points, reference: tuple[float, float]) -> float:
    """Return the area that points dominate below a reference, as a share of that of the reference."""
    total, height = 0.0, reference[1]
    for x, y in sorted(points):
        if x < reference[0] and y < height:
            total, height = total + (reference[0] - x) * (height - y), y
    return total / (reference[0] * reference[1])


def volume_difference(first: list[Records], second: list[Records], reference: tuple[float, float]) -> str:
    """Return the hypervolume of two sets of policies, and their difference with a bootstrap interval over episodes."""
    tables = [
        np.array([[[r[m] for m in PAIR.metrics] for r in records] for records in each]) for each in (first, second)
    ]
    draw, episodes = np.random.default_rng(0), tables[0].shape[1]

    def both(rows: Any) -> list[float]:
        return [hypervolume([tuple(p) for p in table[:, rows].mean(1)], reference) for table in tables]

    a, b = both(np.arange(episodes))
    drawn = [both(draw.integers(episodes, size=episodes)) for _ in range(1000)]
    low, high = np.percentile([x - y for x, y in drawn], (2.5, 97.5))
    return f"{a:.4f} against {b:.4f}, difference {a - b:+.4f} ({low:+.4f} to {high:+.4f})"


def difference(values: list[list[float]], others: list[list[float]]) -> str:
    """Return the change from others, by training seed then episode, in per cent with its interval; seeds follow."""
    mean, other = np.mean(values, 0), np.mean(others, 0)
    paired = paired_difference(mean.tolist(), other.tolist())
    base = other.mean()
    seeds = " ".join(f"{100.0 * (fmean(v) / fmean(o) - 1.0):+.2f}" for v, o in zip(values, others, strict=True))
    ends = "" if paired.low is None else f" ({100.0 * paired.low / base:+.2f} to {100.0 * paired.high / base:+.2f})"
    return f"{100.0 * paired.value / base:+.2f}{ends} [{seeds}]"


def study_of(options: argparse.Namespace) -> Study:
    """Return the problem; its scenario is written into the folder."""
    if options.problem == "two_servers":
        values = costs.scenario(RATE, PRICE)
        values["aims"].pop("objective")
        source = options.folder / "source.json"
        source.write_text(json.dumps(values), encoding="utf-8")
        scenario = load_scenario(source)
    elif options.problem == "loan_desk":
        scenario = changed(make_process(scenario="loan_desk").scenario, {"costs": LOAN_DESK})
    else:
        made = make_process(event_log=options.problem, cost=options.cost) if options.cost else None
        scenario = made.scenario if made else load_scenario(Path(options.problem))
        scenario = changed(scenario, {"objective": {}, "main_metric": None})
    file = options.folder / "scenario.json"
    file.write_text(json.dumps(scenario_content(scenario)), encoding="utf-8")
    simulator = ProcessSimulator(PAIR.on(scenario))
    rule = "logged" if "logged" in simulator.heuristics else "fifo"
    records, _ = CompiledPlayer(simulator, None, 1).play(rule, None, options.evaluation_episodes, 0)
    print(f"{rule}: {', '.join(f'{m} {fmean(r[m] for r in records):.4g}' for m in PAIR.metrics)}", flush=True)
    return Study(options, file, scenario, even_weight(PAIR, scenario, records))


def main() -> None:
    """Print tables of differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where scenario and runs go")
    parser.add_argument("--problem", default="two_servers", help="two_servers, loan_desk, a scenario file, or a log")
    parser.add_argument("--cost", default="", help="costs of a log, as COST has them")
    parser.add_argument("--points", type=int, default=5, help="weights with a policy of their own")
    parser.add_argument("--episodes", type=int, default=10, help="training episodes of each of them")
    parser.add_argument("--shares", type=int, nargs="+", default=[5, 2], help="as many decisions as so many of them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of the trainings")
    parser.add_argument("--evaluation-episodes", type=int, default=20, help="episodes of each comparison")
    parser.add_argument("--prior", default="rule", help="POLICY_PRIOR of all")
    parser.add_argument("--windows", type=int, default=3, help="draws of the weight in an episode")
    parser.add_argument("--scale", choices=("none", "spread", "level and spread"), default="level and spread")
    parser.add_argument("--per-weight", action="store_true", help="standardise advantages for each weight by itself")
    parser.add_argument("--settings", default="{}", help="further hyperparameters of all trainings, JSON")
    parser.add_argument("--name", default="seen", help="name of the conditioned runs, for variants in one folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", NumbaExperimentalFeatureWarning)  # a record with one more field is a subtype
    study = study_of(options)
    report(study, *runs_of(study))


def runs_of(study: Study) -> tuple[dict[int, list[Records]], dict[tuple[int, int], list[Records]]]:
    """Train and play: seed -> episodes of each separate policy; (share, seed) -> those of each weight; 0: untrained."""
    options, folder, player = study.options, study.options.folder, Player(study)
    process = make_process(scenario=str(study.file), policy_prior=options.prior)
    everywhere = sorted([*study.weights, *study.between])
    separate, seen, seconds = {}, {}, {}
    for seed in options.seeds:
        own = [process.hooks.with_objective(process, PAIR.objective(weight)) for weight in study.weights]
        names = [folder / f"weight-{weight:g}-{options.episodes}-{seed}" for weight in study.weights]
        took = [trained(n, s, options, options.episodes, seed) for n, s in zip(names, own, strict=True)]
        separate[seed], seconds["separate"] = [player.play(*each) for each in zip(names, own, strict=True)], sum(took)
        for share in options.shares:
            name = folder / f"{options.name}-{share}-{options.episodes}-{seed}"
            simulator = study.conditioned([study.at(e) for e in TRAINED_AT], for_training=True)
            seconds[share] = trained(name, simulator, options, share * options.episodes, seed)
            at_each = [study.conditioned([weight], for_training=False) for weight in everywhere]
            seen[share, seed] = [player.play(name, simulator) for simulator in at_each]
        seen[0, seed] = [player.play(name, simulator, untrained=True) for simulator in at_each]
    print("seconds of trainings of the last seed:", {n: round(s) for n, s in seconds.items()}, flush=True)
    return separate, seen


def report(study: Study, separate: dict[int, list[Records]], seen: dict[tuple[int, int], list[Records]]) -> None:
    """Print the tables."""
    options, seeds = study.options, study.options.seeds
    places = {weight: i for i, weight in enumerate(sorted([*study.weights, *study.between]))}
    for weight in places:
        if weight in study.weights:
            k = study.weights.index(weight)
            rivals, rival = {seed: separate[seed][k] for seed in seeds}, "own"
        else:
            rivals, rival = {}, "best of the others"
            for seed in seeds:
                rivals[seed] = min(separate[seed], key=lambda r: fmean(study.objective(r, weight)))
        others = [study.objective(rivals[seed], weight) for seed in seeds]
        line = f"weight {weight:g}: {rival} {np.mean(others):.4f}"
        if options.problem == "two_servers":
            least, length = costs.optimum(RATE, PRICE, weight)
            line += f" ({100.0 * (np.mean(others) / least - 1.0):+.2f} % of the optimum, fast from {length})"
        for share in (*options.shares, 0):
            values = [study.objective(seen[share, seed][places[weight]], weight) for seed in seeds]
            line += f"; {share}: {difference(values, others)}"
        print(line, flush=True)
    everyone = [r for each in (*separate.values(), *seen.values()) for r in each]
    reference = tuple(1.05 * max(fmean(r[m] for r in records) for records in everyone) for m in PAIR.metrics)
    for share in (*options.shares, 0):
        for seed in seeds:
            same = [seen[share, seed][places[weight]] for weight in study.weights]
            print(f"hypervolume, {share}, seed {seed}: {volume_difference(same, separate[seed], reference)}")
            print(f"  with those between: {volume_difference(seen[share, seed], separate[seed], reference)}")


if __name__ == "__main__":
    main()
