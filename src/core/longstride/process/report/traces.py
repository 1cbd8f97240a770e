"""Episodes of the process simulator, played to see what happens in them."""

from longstride.process.report.trace import Trace, trace_of
from longstride.process.simulator import ProcessSimulator
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.trained_policy import TrainedPolicy

_STREAMS, _EPISODE = "evaluation", 0
"""The first episode of an evaluation."""

_MOST_HEURISTICS = 2


def play_traces(simulator: ProcessSimulator, trained: TrainedPolicy, seed: int) -> dict[str, Trace]:
    """Return the first episode of an evaluation under the trained policy, ``spt``, and ``logged`` or else ``fifo``.

    Args:
        simulator: simulator to play.
        trained: trained policy.
        seed: seed of the evaluation.
    """
    player = CompiledPlayer(simulator, trained.spec, 1)
    names = [name for name in ("spt", "logged", "fifo") if name in simulator.heuristics][:_MOST_HEURISTICS]
    traces = {}
    for name in ("trained", *names):
        params = trained.actor_params if name == "trained" else None
        actions = player.actions(name, params, _EPISODE, seed, _STREAMS)[:, 0]
        traces[name] = trace_of(simulator, actions, seed, _STREAMS, _EPISODE)
    return traces
