"""Plays an episode of a simulator file in a process of its own and prints what came of it as JSON."""

import json
import sys

import numpy as np

from longstride.jit_cache import cache
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.simulators.loading import load_simulator

if __name__ == "__main__":
    simulator = load_simulator(sys.argv[1]).simulator
    collector = EpisodeCollector(
        simulator, PolicySpec(1, simulator.action_space, (), (), "relu", MLP), RolloutPlan(seed=0, instances=1)
    )
    episode = collector.collect(np.zeros(8, np.float32), 0, 1)[0][0]
    print(json.dumps([episode.finished[0].total_reward, cache.CACHE_STATS.loaded, cache.CACHE_STATS.compiled]))
