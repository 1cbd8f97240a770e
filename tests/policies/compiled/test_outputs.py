"""The compiled policy on recorded steps: the outputs and actions of torch, where episodes begin anew."""

import numpy as np
import pytest
from helpers.exported_policies import exported, steps_of

from longstride.commands.export.forms import play_compiled, play_torch
from longstride.commands.export.parity import differences, limit_of


@pytest.mark.parametrize("name", ["squashed", "remembering choices", "attending"])
def test_outputs_are_those_of_torch(name):
    spec, params, _ = exported(name)
    steps = steps_of(name)
    reference, played = play_torch(spec, params, steps), play_compiled(spec, params, steps)
    assert differences(spec, steps, reference, {"Numba": played}, ())["Numba"].within(limit_of(reference, steps))
    np.testing.assert_allclose(
        played[0][steps.masks] if steps.masks.size else played[0], _allowed(reference, steps), atol=2e-5
    )


def _allowed(reference, steps):
    return reference[0][steps.masks] if steps.masks.size else reference[0]
