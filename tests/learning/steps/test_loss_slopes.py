"""Losses with their derivatives in closed form, against autograd in float64."""

import sys
from importlib.util import find_spec
from json import loads
from types import ModuleType

import pytest
import torch
from helpers.choice_losses import by_autograd, choice_samples, coefficients_of
from helpers.fake_card.processes import in_a_process
from helpers.real_steps import prepared_step
from helpers.specs import mlp_spec
from helpers.toy_runs import toy_algorithm, toy_stepper
from learning.step_costs.test_work import SHAPES

from longstride.learning import steps as package_of_steps
from longstride.learning.algorithms.ppo import LossTerms, PolicyTerms, Ppo
from longstride.learning.step_costs.work import step_work
from longstride.learning.steps import loss_slopes
from longstride.learning.steps.loss_slopes import choose
from longstride.learning.steps.loss_slopes.one_choice import figures_of, fits, loss_with_slopes
from longstride.policies.networks import ActorCritic
from longstride.simulators.spaces import Discrete

CPU = torch.device("cpu")


@pytest.mark.parametrize("entropy", [0.01, 0.0])
@pytest.mark.parametrize("critic", [True, False])
def test_the_closed_form_is_what_autograd_computes(critic, entropy):
    samples, logits, values, weights = choice_samples(torch.float64)
    given = samples, logits, values if critic else values[:0], weights, coefficients_of(torch.float64, entropy)
    total, terms, slopes = by_autograd(*given)
    loss = loss_with_slopes(given[1], given[2], samples, *given[3:])
    assert float(terms.clip_fraction) > 0.1, "ratios are clipped"
    assert float(terms.ratio_error) > 0.5
    assert type(loss.terms) is (LossTerms if critic else PolicyTerms)
    for found, expected in zip((loss.total, *loss.terms), (total, *terms), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    for found, expected in zip(loss.slopes, slopes, strict=True):
        assert expected.abs().max() > 1e-4
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-15)
    assert not loss.slopes[0][~samples.masks].any(), "nothing by forbidden actions"
    assert not loss.slopes[0][-7:].any(), "nothing by samples of weight 0"


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_what_is_not_finite_stays_so_that_the_step_is_skipped(broken):
    samples, logits, values, weights = choice_samples(torch.float32)
    logits[3, samples.actions[3]] = broken
    loss = loss_with_slopes(logits, values, samples, weights, coefficients_of(torch.float32))
    assert not loss.total.isfinite()
    assert not loss.slopes[0][3].isfinite().all()


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: it comes with torch for CUDA")
def test_the_kernel_computes_the_same_in_tritons_interpreter():
    found = loads(in_a_process("-m", "helpers.triton_losses"))
    assert all(found[case] < 2e-5 for case in ("ppo", "no entropy", "grpo", "in a rollout")), found
    assert found["nan stays"]
    assert found["rows of a matrix"] == 0.0
    assert found["steps"] < 2e-6, "torch's steps are compared with float64 in test_clipped_adam.py"


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_gradients_of_a_step_are_those_of_autograd(precision):
    """In half precision but for roundings of what the hidden layers are given."""
    stepper, *arguments = prepared_step(SHAPES["features"], precision, 64, 64, on_card=True)
    assert stepper.has_slopes
    found, report = stepper.gradients(*arguments)
    stepper.use_loss(stepper.loss)
    expected, same = stepper.gradients(*arguments)
    torch.testing.assert_close(report, same, rtol=1e-5, atol=1e-7)
    for part in stepper._slices.values():
        assert expected[part].abs().max() > 1e-4
        limit = (1e-6 if precision == "fp32" else 2e-3) * float(expected[part].abs().max())
        torch.testing.assert_close(found[part], expected[part], rtol=1e-4, atol=limit)


def test_other_losses_are_left_to_autograd():
    class Other(Ppo):
        """A loss of its own."""

    spec, ppo = mlp_spec((3, 4, 2), (3, 4, 1), space=Discrete(2)), toy_algorithm()
    assert fits(spec, ppo)
    assert not fits(spec, Other(0.9, ppo.coefficients))
    assert not fits(SHAPES["choices"], ppo)
    assert not fits(SHAPES["box"], ppo)
    assert not toy_stepper(ActorCritic(spec)).has_slopes, "the CPU's steps stay as they are"


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: it comes with torch for CUDA")
def test_a_step_launches_as_many_of_tritons_kernels_and_torchs_operations_as_counted():
    """Interpreted kernels are launches, too; the interpreter rounds to BF16 in its own way."""
    found = loads(in_a_process("-m", "helpers.triton_steps"))
    for precision, largest in (("fp32", 1e-6), ("bf16", 2e-2)):
        counted = step_work(SHAPES["desk"], precision != "fp32", 64, 64, triton=True).launches
        assert found[precision]["launches"] == counted
        assert len(found[precision]["kernels"]) == sum(choose.LAUNCHES.values())
        assert found[precision]["difference"] < largest


def with_kernels(monkeypatch, figures, rows=choose.gather, steps=choose.step_of_all):
    """Say that this torch is one for CUDA, and that Triton's kernels are some functions; return what a GPU runs."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name in ("difference", "difference_of_rows", "difference_of_steps"):
        compare = getattr(choose, name)
        monkeypatch.setattr(choose, name, lambda kernel, device, compare=compare: compare(kernel, CPU))
    for package, name, functions in (
        (loss_slopes, "triton_choice", {"figures_of": figures}),
        (loss_slopes, "triton_gather", {"gather": rows}),
        (package_of_steps, "triton_adam", {"step_of_all": steps}),
    ):
        module = ModuleType(f"{package.__name__}.{name}")
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(package, name, module, raising=False)
    return choose.kernels_on(torch.device("cuda"))


def same(*arguments):
    """Return what torch computes."""
    return figures_of(*arguments)


def test_kernels_that_compute_the_same_are_used(monkeypatch):
    assert with_kernels(monkeypatch, same) == (choose.Kernels(same), "")
    assert choose.kernels_on(CPU) == (choose.Kernels(), "")


def wrong(*arguments):
    """Return derivatives that are not those of the loss."""
    figures = figures_of(*arguments)
    return figures._replace(by_logits=1.01 * figures.by_logits)


def failing(*arguments):
    """Fail as a compiler does."""
    raise RuntimeError("no such instruction")


def other_rows(source, places, dtype):
    """Return rows that are not those that were asked for."""
    return 1.01 * choose.gather(source, places, dtype)


def other_steps(parts, gradients, *others):
    """Step with other gradients."""
    choose.step_of_all(parts, [1.01 * gradient for gradient in gradients], *others)


@pytest.mark.parametrize(
    ("kernels", "name", "why"),
    [
        ((wrong,), "figures", "it differs by 0.01 from torch"),
        ((failing,), "figures", "no such instruction"),
        ((same, other_rows), "gather", "it differs by 0.0"),
        ((same, choose.gather, other_steps), "adam", "it differs by"),
        ((same, choose.gather, failing), "adam", "no such instruction"),
    ],
)
def test_a_kernel_that_computes_something_else_or_fails_is_not(kernels, name, why, monkeypatch):
    chosen, sentence = with_kernels(monkeypatch, *kernels)
    expected = choose.Kernels(*kernels)._replace(**{name: getattr(choose.Kernels(), name)})
    assert chosen == expected, "the others are used"
    assert sentence.startswith(f"The Triton kernel {name} is not used: {why}")
