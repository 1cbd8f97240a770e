"""Run with NUMBA_DISABLE_JIT=1: each decision of an evaluation's episode again, through the described state."""

import json
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
from helpers.played_states import decisions, some_policy
from oracles.process_play import office, scenario, service

from benchmarks.dump_state import dump_state
from longstride.process.recommend.recommender import Recommender
from longstride.process.scenario.aims import Aims, Due
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.schema import parse_state


def clinic() -> ProcessSimulator:
    """Return a process with all that a policy cannot change: delays, an automatic activity, rosters, pauses."""
    weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    plans = [
        {"days": weekdays, "p": 0.6, "hours": ["08:00-16:00"]},
        {"days": weekdays, "p": 0.3, "hours": ["10:00-12:00"]},
    ]
    either = {"and": [{"task": "test"}, {"seq": [{"task": "print"}, {"task": "talk"}]}]}
    return ProcessSimulator(
        scenario(
            horizon={"value": 168.0},
            arrivals={"process": "weekly", "rates": ([0.0] * 8 + [1.6] * 8 + [0.0] * 8) * 7},
            activities=["talk", "test", "print", "close"],
            resources=["ann", "bob", "eve"],
            service=[
                service("talk", "ann", "exponential", mean=0.5),
                service("talk", "bob", "lognormal", mean=0.7, cv=0.5),
                service("test", "bob", "quantiles", quantiles=[0.1, 0.4, 2.0]),
                service("test", "eve", "uniform", low=0.2, high=0.9),
                service("close", "eve", "constant", mean=0.2),
            ],
            flow={"seq": [{"task": "talk"}, either, {"task": "close"}]},
            rosters={"ann": plans, "bob": plans},
            working_hours={"eve": [{"days": weekdays, "from": "08:00", "to": "17:00"}]},
            at_end_of_duty="pause",
            delays=[{"activity": "test", "distribution": "exponential", "mean": 2.0}],
            automatic=[{"activity": "print", "distribution": "constant", "mean": 0.3}],
        )
    )


def week(simulator: ProcessSimulator, most: int) -> list[tuple[str, int]]:
    """Return the described states of an evaluation's episode, and the action in each."""
    played = decisions(simulator, some_policy(simulator))
    return [(json.dumps(dump_state(state, simulator)), action) for state, action in islice(played, most)]


def replay(simulator: ProcessSimulator, family: str, most: int) -> dict[str, int]:
    """Describe the states of an evaluation's episode and have them answered; return how often something differs."""
    trained = some_policy(simulator, family)
    recommender, memory, found = Recommender(simulator, trained), "", Counter[str]()
    observation = np.zeros(simulator.observation_size, np.float32)
    for state, action in islice(decisions(simulator, trained), most):
        described = {**dump_state(state, simulator), "memory": memory}
        advice = recommender.advise(parse_state(json.dumps(described), "state"))
        simulator.observe(state, simulator.parameters, observation)
        same = trained.spec.scores_actions or np.array_equal(observation, recommender._reader._observation)
        found["decisions"] += 1
        found[f"action {action}"] += 1
        found["other actions"] += action != advice.action
        found["other observations"] += not same
        found["siblings"] += bool(state.joined[: state.arrived].any())
        memory = advice.memory
    return found


if __name__ == "__main__":
    punctual = office().model_copy(update={"aims": Aims(due=Due(after=600.0))})
    processes = {"office": ProcessSimulator(office()), "clinic": clinic(), "punctual": ProcessSimulator(punctual)}
    Path(sys.argv[1]).write_text(json.dumps(week(processes["office"], 300)))
    results = []
    for case in sys.argv[2:]:
        process, family, most = case.split(":")
        results.append(replay(processes[process], family, int(most)))
    print(json.dumps(results))
