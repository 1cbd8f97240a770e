"""The code of "Coming from SimPy" and "Coming from Stable-Baselines3" does what the pages say."""

import importlib.util

import numpy as np
import pytest
from helpers.documentation import blocks, page

pytest.importorskip("pydantic")

from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, metrics_of, new_state

WAIT = 9 / 7
"""Erlang's C for two servers: P(wait) = 4.5 / 7 at an offered load of 1.5, over a spare rate of 0.5."""


def test_both_queues_have_erlangs_mean_wait():
    simpy_code, own = blocks(page("how-to/come-from-simpy.md"), "python")
    names = {"__name__": "queue_of_the_page"}
    exec(own, names)
    simulator = names["Queue"]()
    functions = compile_functions(simulator)
    waits = []
    for episode in range(3):
        states, rng = new_state(simulator), stream(0, "page", episode)
        functions.reset(states[0], None, rng)
        for _ in range(simulator.max_steps):
            functions.step(states[0], None, 0, rng)
        waits.append(metrics_of(simulator, states)["wait"])
    assert sum(waits) / 3 == pytest.approx(WAIT, rel=0.08)
    if importlib.util.find_spec("simpy"):
        names = {}
        exec(simpy_code.replace("import random\n", "import random\nrandom.seed(1)\n"), names)
        assert sum(names["waits"]) / len(names["waits"]) == pytest.approx(WAIT, rel=0.15)


def test_the_training_next_to_stable_baselines3_runs(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    _, own = blocks(page("how-to/come-from-stable-baselines3.md"), "python")
    sizes = "num_envs=8, rollout_steps=256, batch_size=256, training_episodes=24"
    assert sizes in own
    names = {"observation": np.zeros(4, np.float32)}
    exec(
        own.replace(sizes, "num_envs=2, rollout_steps=64, batch_size=64, training_episodes=4, actor_hidden_size=8"),
        names,
    )
    assert [record["evaluation"] is not None for record in names["run"].metrics] == [False, False, False, True]
    assert names["action"] in (0, 1)
