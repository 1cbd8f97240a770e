"""Collection by players: on the hosts of a Ray cluster, or in this process ahead of the update."""

from longstride.errors import UserError
from longstride.hardware.planning.plan import Plan
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.hosts.collector import HostsCollector
from longstride.rollout.hosts.pool import Job, LocalPool
from longstride.rollout.hosts.ray_pool import RayPool
from longstride.rollout.trajectory import Allocate
from longstride.training.assembly.setup import Setup
from longstride.training.assembly.sizes import grows


def build_hosts_collector(setup: Setup, plan: Plan, rollout: RolloutPlan, new: Allocate) -> HostsCollector:
    """Build the collector; nothing is connected before it compiles.

    Raises:
        UserError: settings do not go together.
    """
    config = setup.config
    _require_playable(setup, rollout)
    job = Job(setup.simulator, setup.source, setup.spec, rollout)
    if config.rollout_hosts:
        pool = RayPool(config.rollout_hosts, plan.simulation_threads)
        return HostsCollector(job, pool, config.rollout_lag, new)
    threads = plan.simulation_threads if setup.simulator.compiled else 1
    return HostsCollector(job, LocalPool(threads), config.rollout_lag, new)


def _require_playable(setup: Setup, rollout: RolloutPlan) -> None:
    config = setup.config
    name = "ROLLOUT_HOSTS" if config.rollout_hosts else "ROLLOUT_LAG"
    if setup.simulator.hooks.learns:
        raise UserError(f"{name} plays copies of the simulator, whose reward changes here; leave out {name} or TARGET.")
    if rollout.of:
        raise UserError(f"{name} does not go with torchrun, whose processes play their own share; leave one out.")
    if config.rollout_lag and grows(config, setup.simulator):
        raise UserError(
            "ROLLOUT_LAG plays the next rollout before its size is chosen; set GROW_ROLLOUTS to False, or "
            "NUM_ENVS or ROLLOUT_STEPS to a size."
        )
