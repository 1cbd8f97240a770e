"""``python -m helpers.fake_card.memory GUARD_LIBRARY`` prints the bytes of whole updates on the fake card, as JSON."""

import gc
import json
import sys
import weakref
from pathlib import Path

from helpers.fake_card.card import fake_card, load_guard

WIDTHS = 256, 1024


def run_cases(card_class):
    """Return the most bytes of an update on the card and their prediction, by the width of the critic."""
    import numpy as np
    import torch
    from helpers.real_steps import prepared_update, shape_of_update
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from longstride.learning.step_costs.update_memory import estimate_memory, value_rows
    from longstride.policies.card_spec import card_spec

    class CardBytes(TorchDispatchMode):
        """Counts the memory of the card while it lives."""

        def __init__(self):
            super().__init__()
            self._seen, self.alive, self.peak = set(), 0, 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.device.type == "cuda":
                    self._count(leaf.untyped_storage())
            return result

        def _count(self, storage):
            key, size = storage._cdata, storage.nbytes()
            if key not in self._seen:
                self._seen.add(key)
                self.alive += size
                self.peak = max(self.peak, self.alive)
                weakref.finalize(storage, self._release, key, size)

        def _release(self, key, size):
            self._seen.discard(key)
            self.alive -= size

    results = {}
    for width in WIDTHS:
        # Predictions count operations of their own, which are not those of the card: they are made before, and kept.
        value_rows(card_spec(shape_of_update(width, "relu")), 100)
        estimate_memory(shape_of_update(width), False, 100, 128, 64, pieces=4, on_card=True)
        with card_class(), CardBytes() as card:
            updater, played, predicted = prepared_update(width, "cuda")
            gc.collect()
            card.peak = card.alive
            updater.update(*played, np.random.default_rng(2))
        results[str(width)] = {"real": card.peak, "predicted": predicted.peak}
    return results


if __name__ == "__main__":
    load_guard(Path(sys.argv[1]))
    print(json.dumps(run_cases(fake_card())))
