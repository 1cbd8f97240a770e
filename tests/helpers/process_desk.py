"""A desk with a fast and a slow person, for the tests of the control variate."""

from oracles.process_play import scenario, service

from longstride.process.simulator import ProcessSimulator

HOURLY = [0.0] * 9 + [4.0] * 3 + [1.0] * 5 + [0.0] * 7  # of a working day


def desk(**arrivals) -> ProcessSimulator:
    return ProcessSimulator(
        scenario(
            horizon={"value": 24.0 * 16},
            arrivals=arrivals,
            resources=["fast", "slow"],
            service=[service("A", "fast", "constant", mean=0.2), service("A", "slow", "constant", mean=0.6)],
        )
    )
