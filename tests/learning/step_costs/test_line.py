"""Costs of a long chunk by those of two short ones, against a count of the long one."""

from dataclasses import replace

import pytest
import torch
from helpers.memory_models import memory_spec

from longstride.learning.step_costs.count import Costs, _gradient, count_gradient, count_values
from longstride.learning.step_costs.line import Line
from longstride.policies.families.mingru.network import MINGRU_IN_TORCH
from longstride.policies.families.torch_families import TORCH_FAMILIES

SPEC = memory_spec(actor=(24,), critic=(24,))
STEPS = 12


def step_by_step(inputs):
    """Return what layers with memory do, a step of all chunks after the other."""
    memory, outputs, states = inputs.memory, [], inputs.memory.states
    chunks, spec = len(states), inputs.spec
    rows, begins = inputs.x.view(chunks, -1, inputs.x.shape[1]), memory.begins.view(chunks, -1, 1)
    for x, begin in zip(rows.unbind(1), begins.unbind(1), strict=True):
        kept = states.masked_fill(begin, 0.0)
        (weight, bias), (gates, gates_bias) = inputs.layers
        units = inputs.activation(torch.addmm(bias, x, weight))
        q, u, _ = torch.addmm(gates_bias, units, gates).chunk(3, dim=1)
        states = torch.sigmoid(q) * u + (1.0 - torch.sigmoid(q)) * kept
        outputs.append(states)
    assert spec.has_memory
    return torch.stack(outputs, dim=1).flatten(0, 1), states


def test_what_a_long_chunk_costs_is_on_the_line(monkeypatch):
    monkeypatch.setitem(TORCH_FAMILIES, "mingru", replace(MINGRU_IN_TORCH, hidden=step_by_step))
    line = Line(STEPS)
    few, more, whole = (_gradient(SPEC, steps, False, False) for steps in (*line.counted, STEPS))
    for name in ("total", "compiled"):
        parts = ((each.compiled if name == "compiled" else each.eager.total) for each in (few, more, whole))
        short, longer, expected = parts
        counted = line.total(short, longer)
        assert counted.launches == expected.launches > 10 * STEPS / 2
        for amount, same in zip(counted.sums, expected.sums, strict=True):
            assert amount.of(1024) == pytest.approx(same.of(1024), rel=0.01)
    held = Costs(few.eager.total, line.peaks(few.eager.peaks, more.eager.peaks))
    assert held.peak(1024) == pytest.approx(whole.eager.peak(1024), rel=0.1)


def test_a_family_that_loops_is_counted_on_short_chunks(monkeypatch):
    monkeypatch.setitem(TORCH_FAMILIES, "mingru", replace(MINGRU_IN_TORCH, hidden=step_by_step, loops=True))
    for function in (count_gradient, count_values):
        function.cache_clear()
    found = count_gradient(SPEC, False, False), count_values(SPEC)
    for function in (count_gradient, count_values):
        function.cache_clear()
    assert found[0].eager.total.launches > 128 * 10 < 10 * found[1].total.launches
