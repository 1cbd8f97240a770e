"""How often the truth lies in the 95 % interval of a predicted change, with and without the error of the log.

Logs and truth are those of counterfactuals.py, and the figures under the logged habits those of ``whatif``. Where the
simulated base misses its log, ``whatif`` withholds the verdict: those logs are counted apart.
Usage: python research/processes/coverage.py ENGINE.py FOLDER [--process plain ...] [--seeds 101 102] [--resamples 20]
       [--runs 20] [--episodes 30] [--processes 1] [--json FILE]
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from counterfactuals import CHANGES, generated, load_engine, truth

from longstride.process.changes.apply import apply_changes
from longstride.process.fidelity.base import compare_base, logged_figures
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.resamples.interval import Interval, LogError, effect_of, interval
from longstride.process.resamples.play import Resampling, mean_cycle_times, play_resamples
from longstride.process.simulator import ProcessSimulator


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--process", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    engine, rows = load_engine(options.engine), []
    for seed in options.seeds:
        for name in options.process or engine.PROCESSES:
            true = truth(engine, name, options.folder / f"truth of {name}.json", options.runs)
            rows += measure(engine, name, seed, true, options)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    for judged, title in ((True, "verdict given"), (False, "withheld")):
        print(title, *(f"{kind} {held(rows, judged, kind)}" for kind in ("episodes", "log")), sep=", ")


def measure(engine: ModuleType, name: str, seed: int, true: list[float], options: argparse.Namespace) -> list[Any]:
    """Return a row for each change of one log: the prediction, both intervals and the truth, in %."""
    log, words = generated(engine, name, seed, options.folder)
    mined = mine_scenario(log, name="generated").scenario
    base = compare_base(ProcessSimulator(mined.model_copy(update={"logged": logged_figures(log, mined, [])})))
    assert base is not None
    resampling = Resampling(log, mined, "weekly", tuple(words.values()), options.resamples, 20, seed)
    begin = time.process_time()
    errors = play_resamples(resampling, options.processes, lambda line: None)
    seconds, rows = time.process_time() - begin, []
    unchanged = mean_cycle_times(mined, range(options.episodes))
    for change, value in zip(CHANGES, true, strict=True):
        changed = mean_cycle_times(apply_changes(mined, words[change]).scenario, range(options.episodes))
        effect, error = effect_of(changed, unchanged), errors.get(words[change])
        both = {kind: in_percent(interval(effect, of)) for kind, of in (("episodes", None), ("log", error))}
        parts = vars(error) if isinstance(error, LogError) else None
        row = {"process": name, "seed": seed, "change": change, "true": value, "judged": not base.misses, **both}
        rows.append(row | {"parts": parts, "misses": base.misses})
        shown = "  ".join(
            f"{low:+.1f} to {high:+.1f}{'' if low <= value <= high else '*'}" for low, high in both.values()
        )
        print(f"{name:17}{seed:4} {change:14} true {value:+.1f}  {shown}", flush=True)
    print(f"  {'judged' if not base.misses else base.misses} ({seconds:.0f} s of CPU for the resamples)", flush=True)
    return rows


def in_percent(found: Interval) -> list[float]:
    """Return the ends of an interval as a change in %."""
    return [100.0 * math.expm1(found.low), 100.0 * math.expm1(found.high)]


def held(rows: list[dict[str, Any]], judged: bool, kind: str) -> str:
    """Return how many intervals hold the truth, such as ``38 of 40``."""
    of = [row for row in rows if row["judged"] == judged]
    return f"{sum(row[kind][0] <= row['true'] <= row[kind][1] for row in of)} of {len(of)}"


if __name__ == "__main__":
    main()
