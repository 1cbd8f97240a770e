"""``python -m helpers.fake_card.forwards GUARD_LIBRARY`` prints what forward passes on the fake card did, as JSON."""

import json
import sys
from functools import partial
from pathlib import Path

from helpers.fake_card.card import NoStream, fake_card, load_guard

TURNS = 3


def run_cases(card_class):
    """Return what the last of some turns did for each family, and how far outputs and states are from the CPU's."""
    import numpy as np
    import torch
    from helpers.memory_models import memory_model, memory_spec
    from helpers.recorded_graphs import RecordedGraphs
    from helpers.toy_runs import toy_model
    from helpers.transformer_models import transformer_spec

    import longstride.policies.batched_forward as batched_forward
    from longstride.learning.device_transfer import host_allocator
    from longstride.policies.batched_forward import TorchForward
    from longstride.policies.networks import ActorCritic

    results = {}
    models = {"mlp": toy_model("shop"), "mingru": memory_model(memory_spec())}
    models["mingru of one layer"] = memory_model(memory_spec(actor=(16,)))
    models["transformer"] = memory_model(transformer_spec())
    models["transformer of one block"] = memory_model(transformer_spec(layers=1))
    models["transformer in BF16"] = memory_model(transformer_spec(widths=(32, 24)))
    batched_forward._LARGE_ROW = 4 * max(model.spec.state_size for model in models.values())
    for name, model in models.items():
        in_bf16 = name.endswith("BF16")
        for way, new_graphs in (("", None), (" captured", RecordedGraphs)):
            actor, rng = model.flat[: model.layout.actor_size].numpy(), np.random.default_rng(0)
            on_cpu = TorchForward(model.spec, 2, 16, torch.device("cpu"), bf16_states=in_bf16)
            on_cpu.load(actor)
            with card_class() as card:
                on_card = TorchForward(model.spec, 2, 16, torch.device("cuda"), new_graphs, in_bf16)
                host = ActorCritic(model.spec, pinned=True)
                host.flat.detach().copy_(model.flat)
                card.look()
                on_card.load(host.flat[: len(actor)].numpy())
                loaded = vars(card.look())
                on_card.prepare()
                waited = []
                for _ in range(TURNS):
                    inputs = rng.normal(size=on_cpu.observations[0].shape), rng.random((16, 1)) < 0.3
                    card.look()
                    for each in (on_cpu, on_card):
                        each.observations[1], each.begins[1] = inputs
                        each.launch(1)
                        each.wait(1)
                    traffic = vars(card.look())
                    waited.append(len(on_card._streams[1].waited))
                kept = host_allocator(pinned=True)((10, 2, model.spec.state_size), np.dtype(np.float32))
                card.look()
                on_card.read_states(1, kept[:, 1])
                read = vars(card.look())
                states = [each.copy_states()(1) for each in (on_cpu, on_card)]
                outputs = on_cpu.outputs[1], on_card.outputs[1]
                difference = max(np.abs(a - b).max(initial=0) for a, b in (outputs, states))
                for change in (
                    on_card.copy_states,
                    partial(on_card.load, actor),
                    partial(on_card.set_states, 1, kept[:, 1]),
                ):
                    change()
                    on_card.launch(1)
                    waited.append(len(on_card._streams[1].waited))
                ready = [each.stream for each in on_card._ready]
            results[name + way] = {
                **traffic,
                "difference": float(difference),
                "largest": float(np.abs(on_card.outputs[1]).max()),
                "note": on_card.note,
                "loaded": loaded,
                "read": read,
                "read_difference": float(np.abs(kept[:, 1] - states[1][:10]).max(initial=0)),
                "own_stream": ready[1] is on_card._streams[1] is not on_card._streams[0],
                "waited": waited,
                "waited_for": all(each is NoStream.present for each in on_card._streams[1].waited),
            }
    return results


if __name__ == "__main__":
    load_guard(Path(sys.argv[1]))
    print(json.dumps(run_cases(fake_card())))
