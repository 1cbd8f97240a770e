"""``python -m helpers.fake_card.forwards GUARD_LIBRARY`` prints what forward passes on the fake card did, as JSON."""

import json
import sys
from pathlib import Path

from helpers.fake_card.card import fake_card, load_guard

TURNS = 3


class NoEvent:
    """An event of a card that has done everything at once."""

    def record(self):
        """Do nothing."""

    def synchronize(self):
        """Do nothing."""


def run_cases(card_class):
    """Return what the last of some turns did for each family, and how far outputs and states are from the CPU's."""
    import numpy as np
    import torch
    from helpers.memory_models import memory_model, memory_spec
    from helpers.recorded_graphs import RecordedGraphs
    from helpers.toy_runs import toy_model
    from helpers.transformer_models import transformer_spec

    from longstride.policies.batched_forward import TorchForward

    torch.cuda.Event = NoEvent
    results = {}
    models = {"mlp": toy_model("shop"), "mingru": memory_model(memory_spec())}
    models["mingru of one layer"] = memory_model(memory_spec(actor=(16,)))
    models["transformer"] = memory_model(transformer_spec())
    models["transformer of one block"] = memory_model(transformer_spec(layers=1))
    for name, model in models.items():
        for way, graphs in (("", None), (" captured", RecordedGraphs)):
            actor, rng = model.flat[: model.layout.actor_size].numpy(), np.random.default_rng(0)
            on_cpu = TorchForward(model.spec, 2, 16, torch.device("cpu"))
            on_cpu.load(actor)
            with card_class() as card:
                on_card = TorchForward(model.spec, 2, 16, torch.device("cuda"), graphs and graphs())
                on_card.load(actor)
                on_card.prepare()
                for _ in range(TURNS):
                    inputs = rng.normal(size=on_cpu.observations[0].shape), rng.random((16, 1)) < 0.3
                    card.look()
                    for each in (on_cpu, on_card):
                        each.observations[1], each.begins[1] = inputs
                        each.launch(1)
                        each.wait(1)
                    traffic = vars(card.look())
                states = [each.copy_states()(1) for each in (on_cpu, on_card)]
            outputs = on_cpu.outputs[1], on_card.outputs[1]
            difference = max(np.abs(a - b).max(initial=0) for a, b in (outputs, states))
            results[name + way] = {
                **traffic,
                "difference": float(difference),
                "largest": float(np.abs(on_card.outputs[1]).max()),
                "note": on_card.note,
            }
    return results


if __name__ == "__main__":
    load_guard(Path(sys.argv[1]))
    print(json.dumps(run_cases(fake_card())))
