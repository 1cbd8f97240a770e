"""Fronts of cost and waiting beside those that AgentSimulator-Optimizer has published, for the same logs and costs.

For each log: its scenario is mined, with the published hourly costs. `longstride --mode front` trains policies for
several weights and plays the rules. A genetic algorithm searches static priorities of people, as the published
optimiser does. All of them play the same episodes of Longstride's simulator. The published figures come from another
simulator, so each side is shown as a change from its own as-is.

Stages that are done are not repeated. Logs whose files are missing are left out with a line.

Usage: python research/processes/published_front/compare.py FOLDER --logs LoanApp,P2P
"""

import argparse
import csv
import gzip
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import picture
from priorities import Tables, find
from published import PUBLISHED

from longstride.process.front.points import Point, difference, is_shown_better, standings
from longstride.process.read_aims import changed
from longstride.process.scenario_file import load_scenario
from longstride.process.whatif.compare import Sampling

METRICS = "cost_per_case", "mean_waiting_time"
OPEN = "cases_open"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "cost_time_front"


@dataclass(frozen=True)
class Run:
    """What one log is compared with."""

    log: Path
    folder: Path
    name: str
    points: int  # weights
    steps: int  # environment steps of each training
    simulations: int  # episodes of the search
    episodes: int

    @property
    def front(self) -> Path:
        """The result of ``--mode front``."""
        return self.folder / "front" / "front.json"

    @property
    def searched(self) -> Path:
        """The result of the search of priorities."""
        return self.folder / "priorities.json"


def write_costs(log: Path, costs: Path, target: Path) -> None:
    """Write the costs by name: the optimiser numbers people by their first event in the file, without a rate 0."""
    rates = json.loads(costs.read_text(encoding="utf-8"))
    with gzip.open(log, "rt", encoding="utf-8", newline="") as file:
        people = list(dict.fromkeys(row.get("resource") or row["Resource"] for row in csv.DictReader(file)))
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "cost"])
        writer.writerows([name, rates.get(str(number), 0)] for number, name in enumerate(people))


def train_front(run: Run) -> None:
    """Train and play with Longstride, unless that is done."""
    if run.front.exists() and "points" in json.loads(run.front.read_text(encoding="utf-8")):
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    costs = run.folder / "costs.csv"
    write_costs(run.log, run.log.parent / PUBLISHED[run.name].costs, costs)
    command = [sys.executable, "-m", "longstride", "--mode", "front", str(run.log), "--cost", str(costs)]
    command += ["--metrics", ",".join(METRICS), "--points", str(run.points), "--total-steps", str(run.steps)]
    command += ["--evaluation-episodes", str(run.episodes), "--policy-prior", "rule"]
    command += ["--simulation-threads", "1", "--update-threads", "1"]
    with (run.folder / "front.txt").open("a", encoding="utf-8") as output:
        subprocess.run([*command, "--run-directory", str(run.front.parent)], check=True, stdout=output, stderr=output)


def search_priorities(run: Run) -> None:
    """Search static priorities, unless that is done."""
    if run.searched.exists():
        return
    aims = {"objective": {"cost": 1.0, "waiting": 1.0}, "main_metric": None}
    tables = Tables(changed(load_scenario(run.front.parent / "scenario.json"), aims), threads=1)
    found = find(tables, METRICS, run.simulations, Sampling(run.episodes, 0))
    kept = {name: [[r[m] for m in (*METRICS, OPEN)] for r in records] for name, records in found.records.items()}
    content = {"simulations": found.simulations, "seconds": found.seconds, "episodes": kept}
    run.searched.write_text(json.dumps(content), encoding="utf-8")


def points_of(run: Run) -> tuple[list[Point], dict[str, Any]]:
    """Return all points inside Longstride's simulator, and figures of the run."""
    front = json.loads(run.front.read_text(encoding="utf-8"))
    searched = json.loads(run.searched.read_text(encoding="utf-8"))
    points = []
    for point in front["points"]:
        values = zip(*(point["per_episode"][metric] for metric in METRICS), strict=True)
        records = [dict(zip(METRICS, pair, strict=True)) for pair in values]
        points.append(Point(point["name"], point["kind"], records))
    for name, episodes in searched["episodes"].items():
        kind = "search" if name.startswith("priorities") else "rule"
        points.append(Point(name, kind, [dict(zip((*METRICS, OPEN), each, strict=True)) for each in episodes]))
    trained = [json.loads(path.read_text())["seconds"] for path in run.front.parent.glob("weight-*.json")]
    return points, {
        "misses": not front["judged"],
        "base": [line for line in front["sentences"] if line.startswith("Simulated base")],
        "trained_seconds": sum(trained),
        "searched_seconds": searched["seconds"],
        "simulations": searched["simulations"],
        "open": {p["name"]: p["metrics"][OPEN]["mean"] for p in front["points"]},
        "hour": 60.0 if front["units"]["mean_waiting_time"] == "minutes" else 1.0,
    }


def changes(points: list[Point]) -> dict[str, list[tuple[float, float]]]:
    """Return point -> for both metrics the change from the log's habits and half its 95 % interval, in per cent."""
    as_is, found = next(p for p in points if p.name == "logged"), {}
    for point in points:
        pairs = []
        for metric in METRICS:
            paired, mean = difference(point, as_is, metric), as_is.mean(metric)
            half = 0.0 if paired is None or paired.high is None else (paired.high - paired.low) / 2
            pairs.append((100.0 * (0.0 if paired is None else paired.value) / mean, 100.0 * half / mean))
        found[point.name] = pairs
    return found


def summarise(run: Run) -> dict[str, Any]:
    """Return all figures of one log as JSON values.

    Points that leave over twice as many cases open as the log's habits have no place: work not done costs nothing.
    """
    points, more = points_of(run)
    left = {point.name: more["open"].get(point.name) or point.mean(OPEN) for point in points}
    whole = [point for point in points if left[point.name] <= 2.0 * left["logged"]]
    places, moved = standings(whole, METRICS), changes(points)
    trained, searched = ([point for point in whole if point.kind == kind] for kind in ("trained", "search"))
    rows = [
        {
            "name": point.name,
            "kind": point.kind if point in whole else "undone",
            "means": [point.mean(metric) for metric in METRICS],
            "open": left[point.name],
            "changes": moved[point.name],
            "place": f"{places[point.name].place} {places[point.name].behind}"
            if point in whole
            else "leaves work undone",
        }
        for point in points
    ]
    beaten = [
        sum(any(is_shown_better(a, b, METRICS) for a in by) for b in of)
        for by, of in ((searched, trained), (trained, searched))
    ]
    return {"log": run.name, **more, "points": rows, "beaten": beaten, "counts": [len(trained), len(searched)]}


def cell(change: tuple[float, float]) -> str:
    """Return a change as the table shows it."""
    return f"{change[0]:+.1f} ± {change[1]:.1f}"


def print_table(result: dict[str, Any]) -> None:
    """Print one log: the points inside Longstride's simulator, then the published ones."""
    print(f"\n{result['log']}: {' '.join(result['base'])}{' NO VERDICT.' if result['misses'] else ''}")
    seconds = f"{result['trained_seconds']:.0f} s of training, {result['searched_seconds']:.0f} s of search"
    print(f"{seconds} ({result['simulations']} simulations), one core")
    for row in result["points"]:
        cost, waiting = row["means"]
        shown = f"{cost:9.2f} {waiting / result['hour']:8.3f} h  {row['open']:6.1f} open"
        shown += "".join(f" {cell(change):>16}" for change in row["changes"])
        print(f"  {row['name']:28} {shown}  {row['place']}")
    by_search, by_trained = result["beaten"]
    print(
        f"  shown to be dominated: {by_search} of {result['counts'][0]} trained policies by searched priorities, ",
        end="",
    )
    print(f"{by_trained} of {result['counts'][1]} searched priorities by trained policies")
    own = PUBLISHED[result["log"]]
    for name, (cost, waiting) in {
        "as-is": own.as_is,
        "available": own.available,
        "cheapest": own.cheapest,
        "cheapest of front": own.front[0],
        "quickest of front": own.front[-1],
    }.items():
        shown = [f"{100 * (a / b - 1):+.1f}" for a, b in zip((cost, waiting), own.as_is, strict=True)]
        print(f"  published {name:18} {cost:9.0f} {waiting:8.3f} h  {shown[0]:>14} {shown[1]:>16}")


def print_rows(results: list[dict[str, Any]]) -> None:
    """Print the table of the page: changes of cost and waiting of the cheapest and the quickest point of each side."""
    print("\n| log | trained | cheapest person | static priorities | published |\n|---|---|---|---|---|")
    for result in results:
        cells = []
        for kind in ("trained", "search"):
            own = [[c[0] for c in row["changes"]] for row in result["points"] if row["kind"] == kind]
            cells.append(ends(own))
        rule = [[c[0] for c in row["changes"]] for row in result["points"] if row["name"] == "cheapest"]
        own = PUBLISHED[result["log"]]
        front = [[100 * (a / b - 1) for a, b in zip(point, own.as_is, strict=True)] for point in own.front]
        print(f"| {result['log']} | {cells[0]} | {ends(rule)} | {cells[1]} | {ends(front)} |")


def ends(points: list[list[float]]) -> str:
    """Return the changes of the cheapest and the quickest of some points."""
    both = [min(points, key=lambda point: point[k]) for k in (0, 1)] if points else []
    return " … ".join(dict.fromkeys(f"{cost:+.0f}, {waiting:+.0f}" for cost, waiting in both)).replace(
        "-", "\N{MINUS SIGN}"
    )


def main() -> None:
    """Compare the logs, print a table for each, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where runs and results go")
    parser.add_argument("--logs", default=",".join(PUBLISHED), help="names of logs, with commas (default: all)")
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with the logs and costs")
    parser.add_argument("--points", type=int, default=3, help="weights for which policies are trained")
    parser.add_argument("--budget", type=int, default=600_000, help="environment steps of each training")
    parser.add_argument("--simulations", type=int, default=1_800, help="episodes of the search of priorities")
    parser.add_argument("--episodes", type=int, default=20, help="episodes of the comparison")
    parser.add_argument("--picture", type=Path, help="PNG file to draw (default: fronts.png in the folder)")
    given = parser.parse_args()
    results = []
    for name in given.logs.split(","):
        log = given.shared / f"{name}.csv.gz"
        if name not in PUBLISHED or not log.exists():
            print(f"{name} is left out: {'no published figures' if name not in PUBLISHED else f'there is no {log}'}.")
            continue
        run = Run(log, given.folder / name, name, given.points, given.budget, given.simulations, given.episodes)
        began = time.perf_counter()
        train_front(run)
        search_priorities(run)
        results.append(summarise(run))
        print_table(results[-1])
        print(f"  {time.perf_counter() - began:.0f} s in this call", flush=True)
    if results:
        print_rows(results)
        (given.folder / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"Picture: {picture.draw(results, PUBLISHED, given.picture or given.folder / 'fronts.png')}.")


if __name__ == "__main__":
    main()
