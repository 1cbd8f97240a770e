"""The simulator that a Config names."""

from core.config import Config
from core.simulators.loading import LoadedSimulator, load_simulator


def load_configured(config: Config) -> LoadedSimulator:
    """Load the simulator that a Config names.

    Raises:
        UserError: there is none, or it cannot be built.
    """
    return load_simulator(
        config.simulator,
        config.scenario,
        config.event_log,
        config.log_columns,
        config.log_arrivals,
        config.simulator_options,
    )
