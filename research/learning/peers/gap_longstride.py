"""Longstride until it is close to the optimum: ``python -m research.learning.peers.gap_longstride TASK``."""

import tempfile
from typing import Any

from rich.console import Console

from longstride.config import Config
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.settings import Settings
from longstride.simulators.loading import load_simulator
from longstride.training.assembly.run import build_run
from longstride.training.rollout_growth import RolloutGrowth
from research.learning.peers.gap import Choose, GapTask, GapWatch
from research.learning.peers.worker import main


def run(task: GapTask) -> dict[str, Any]:
    """Train with the defaults, and the task's settings in their place."""
    options = {**task.options, "max_steps": task.episode_steps}
    evaluated = load_simulator(task.simulator, options).simulator
    with tempfile.TemporaryDirectory() as directory:
        watch = GapWatch(task, evaluated)
        config = Config(
            seed=task.seed,
            simulator=task.simulator,
            simulator_options=task.options,
            run_directory=directory,
            training_episodes=task.budget // 50_000,
            **task.settings,
        )
        trainer = (built := build_run(Settings(config), resume=False, say=lambda line: None)).trainer

        def steps_done() -> int:
            return trainer.length.done if isinstance(trainer.length, RolloutGrowth) else 0

        def policy() -> Choose:
            loaded = LoadedPolicy(trainer.model.spec, trainer.actor_params())
            return lambda observations, masks: loaded.act(observations, masks)

        built.train(Console(quiet=True), lambda: watch.look(steps_done(), policy))
        return watch.result(steps_done())


if __name__ == "__main__":
    main(run, GapTask)
