"""Small generated logs, and what the package log-distance-measures 2.2.0 says of them.

``python tests/oracles/recorded_distances.py`` writes recorded_distances.json. It needs log-distance-measures, which
needs pandas < 3, so it may need a virtual environment of its own; NumPy is all that it needs besides.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

RECORD = Path(__file__).with_suffix(".json")
MONDAY = datetime(2024, 3, 4)
PAIRS = 6


def generated(seed, which):
    """Return rows (case, activity, start, end) of a small log; times in seconds since a Monday."""
    rng = np.random.default_rng([seed, which])
    rows, time = [], 3600.0 * rng.integers(0, 100)
    days = [0, 1, 2, 3, 4] if (seed + which) % 2 else [0, 1, 2, 3, 4, 5]
    for case in range(int(rng.integers(1, 12))):
        time += rng.exponential(20_000.0)
        at = time
        for _ in range(int(rng.integers(1, 7))):
            while int(at // 86400) % 7 not in days:
                at += 86400.0
            end = at + rng.exponential(4000.0) * (rng.random() < 0.9)
            rows.append((case, int(rng.integers(0, 4)), round(at, 3), round(end, 3)))
            at = end + rng.exponential(30_000.0) * (rng.random() < 0.8) - 500.0 * (rng.random() < 0.2)
    return rows


def measured(first, second):
    """Return the six distances that the package finds."""
    import pandas as pd
    from log_distance_measures.absolute_event_distribution import absolute_event_distribution_distance
    from log_distance_measures.case_arrival_distribution import case_arrival_distribution_distance
    from log_distance_measures.circadian_event_distribution import circadian_event_distribution_distance
    from log_distance_measures.config import EventLogIDs
    from log_distance_measures.cycle_time_distribution import cycle_time_distribution_distance
    from log_distance_measures.n_gram_distribution import n_gram_distribution_distance
    from log_distance_measures.relative_event_distribution import relative_event_distribution_distance

    ids = EventLogIDs(case="case", activity="activity", start_time="start", end_time="end")
    frames = []
    for rows in (first, second):
        frame = pd.DataFrame(rows, columns=["case", "activity", "start", "end"])
        for column in ("start", "end"):
            frame[column] = [pd.Timestamp(MONDAY + timedelta(seconds=t)) for t in frame[column]]
        frames.append(frame)
    logs = frames[0], ids, frames[1], ids
    return {
        "ngd": n_gram_distribution_distance(*logs),
        "aed": absolute_event_distribution_distance(*logs),
        "ced": circadian_event_distribution_distance(*logs),
        "red": relative_event_distribution_distance(*logs),
        "ctd": cycle_time_distribution_distance(*logs, bin_size=timedelta(hours=1)),
        "car": case_arrival_distribution_distance(*logs),
    }


if __name__ == "__main__":
    values = [measured(generated(seed, 0), generated(seed, 1)) for seed in range(PAIRS)]
    RECORD.write_text(json.dumps(values, indent=1, default=float) + "\n")
