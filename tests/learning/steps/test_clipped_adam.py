"""Adam on flat parts against torch's Adam on separate parameters, in float64."""

import pytest
import torch

from longstride.learning.steps.clipped_adam import STATE, ClippedAdam

SHAPES = {"actor": [(5, 4), (4,), (4, 3), (3,)], "critic": [(5, 2), (2,)]}
ADAM = {"actor": (2.0**-7, 1e-4), "critic": (2.0**-6, 1e-5)}
LOSS = torch.tensor(0.3)


def flats(seed=0, scale=1.0):
    """Return random numbers for each part."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {part: sum(map(torch.Size.numel, map(torch.Size, shapes))) for part, shapes in SHAPES.items()}
    return {part: scale * torch.randn(size, generator=generator) for part, size in sizes.items()}


def scaler(**changes):
    return torch.amp.GradScaler("cpu", **{"enabled": False, **changes})


def stepped(adam, gradients, loss=LOSS, scaling=None):
    """Take a step and return whether it was skipped."""
    skipped = torch.zeros(())
    adam.step(gradients, loss.clone(), scaling or scaler(), skipped)
    return skipped.item()


def copied(tensors):
    return {name: tensor.clone() for name, tensor in tensors.items()}


def state_of(adam):
    return {f"{part} {name}": tensor.clone() for part in SHAPES for name, tensor in adam.state(part).items()}


class Reference:
    """torch's Adam over separate float64 parameters, operation by operation, after clip_grad_norm_ of each part."""

    def __init__(self, starts, max_norm):
        self.max_norm, self.norms = max_norm, []
        self.parts = {part: [p.requires_grad_() for p in self.pieces(part, flat)] for part, flat in starts.items()}
        self.optimizers = {
            part: torch.optim.Adam(parameters, lr=ADAM[part][0], eps=ADAM[part][1], foreach=False, fused=False)
            for part, parameters in self.parts.items()
        }

    @staticmethod
    def pieces(part, flat):
        sizes = [torch.Size(shape).numel() for shape in SHAPES[part]]
        return [p.clone().view(s) for p, s in zip(flat.double().split(sizes), SHAPES[part], strict=True)]

    def step(self, gradients, factor=1.0):
        for part, parameters in self.parts.items():
            for parameter, gradient in zip(parameters, self.pieces(part, gradients[part]), strict=True):
                parameter.grad = gradient
            norm = torch.nn.utils.clip_grad_norm_(parameters, self.max_norm, foreach=False)
            self.norms.append((part, float(norm)))
            self.optimizers[part].param_groups[0]["lr"] = factor * ADAM[part][0]
            self.optimizers[part].step()

    def flat(self, part):
        return torch.cat([parameter.detach().flatten() for parameter in self.parts[part]])

    def state(self, part, name):
        states = [self.optimizers[part].state[parameter] for parameter in self.parts[part]]
        return torch.cat([state[name].flatten().double() for state in states])


@pytest.mark.parametrize("max_norm", [1e9, 2.0, 1e-3])
def test_steps_are_those_of_torch_on_separate_parameters(max_norm):
    """80 steps of gradients of many sizes; at norm 2 some are clipped, and often those of one part alone."""
    held = flats()
    adam, reference = ClippedAdam(held, ADAM, max_norm), Reference(held, max_norm)
    for seed in range(80):
        factor = 1.0 - seed / 128
        adam.set_rates({part: factor * rate for part, (rate, _) in ADAM.items()})
        gradients = flats(seed + 1, scale=0.9 ** (seed % 30))
        gradients["critic"] *= 0.5
        reference.step(gradients, factor)
        assert stepped(adam, copied(gradients)) == 0.0
    for part, flat in held.items():
        torch.testing.assert_close(flat.double(), reference.flat(part), rtol=2e-5, atol=2e-6)
        for name in ("exp_avg", "exp_avg_sq"):
            expected = reference.state(part, name)
            torch.testing.assert_close(adam.state(part)[name].double(), expected, rtol=2e-5, atol=1e-9)
        assert adam.state(part)["step"].item() == 80.0
        assert (flat - flats()[part]).abs().max() > 0.03
    clipped = [norm > max_norm for _, norm in reference.norms]
    assert {1e9: not any(clipped), 1e-3: all(clipped)}.get(max_norm, 0.2 < sum(clipped) / len(clipped) < 0.8)
    apart = [a != b for a, b in zip(clipped[::2], clipped[1::2], strict=True)]
    assert sum(apart) > 5 or max_norm != 2.0


def test_moments_of_gradients_that_stay_0_become_0_with_the_next_rollout():
    """Without that they end as numbers that are not normal, with which processors are slow."""
    adam, zero = ClippedAdam(flats(), ADAM, 1.0), {part: 0.0 * flat for part, flat in flats().items()}
    stepped(adam, {part: torch.full_like(flat, 1e-17) for part, flat in flats().items()})
    adam.set_rates({part: rate for part, (rate, _) in ADAM.items()})
    assert adam.state("actor")["exp_avg"].min() > 0.0 and adam.state("actor")["exp_avg_sq"].min() > 0.0
    for steps, name in ((500, "exp_avg"), (2000, "exp_avg_sq")):
        for _ in range(steps):
            stepped(adam, copied(zero))
        assert adam.state("actor")[name].any() and adam.state("critic")[name].any()
        adam.set_rates({part: rate for part, (rate, _) in ADAM.items()})
        assert not adam.state("actor")[name].any() and not adam.state("critic")[name].any()


def test_each_part_is_clipped_by_its_own_norm_and_the_gradient_says_so():
    adam = ClippedAdam(flats(), ADAM, 1.0)
    gradients = {"actor": torch.full((39,), 3.0), "critic": torch.full((12,), 0.01)}
    stepped(adam, copied(gradients))
    expected = torch.cat([gradients["actor"] / (3.0 * 39**0.5), gradients["critic"]])
    torch.testing.assert_close(adam.gradient, expected)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["actor", "critic", "loss"])
@pytest.mark.parametrize("enabled", [False, True], ids=["plain", "scaled"])
def test_a_number_that_is_not_finite_changes_nothing(number, where, enabled):
    held = flats()
    adam, scaling = ClippedAdam(held, ADAM, 1.0), scaler(enabled=enabled)
    scaling.scale(LOSS)  # makes the scale
    assert stepped(adam, flats(1), scaling=scaling) == 0.0
    before, state = copied(held), state_of(adam)
    gradients = flats(2)
    if where != "loss":
        gradients[where][3] = number
    loss = LOSS if where != "loss" else torch.tensor(number)
    assert stepped(adam, gradients, loss, scaling) == 1.0
    assert all(torch.equal(held[part], before[part]) for part in held)
    assert all(torch.equal(tensor, state[name]) for name, tensor in state_of(adam).items())
    assert adam.state("actor")["step"].item() == 1.0


def test_gradients_of_fp16_are_unscaled_once_and_the_scale_follows_torchs_rule():
    """Half after a step that is skipped, double after three that are not: growth_interval."""
    held, others = flats(), flats()
    adam, plain = ClippedAdam(held, ADAM, 1.0), ClippedAdam(others, ADAM, 1.0)
    scaling = scaler(enabled=True, init_scale=1024.0, growth_interval=3)
    scaling.scale(LOSS)
    scales = []
    for seed, broken in enumerate([False, True, False, False, False, False]):
        gradients = flats(seed, 0.1 * (seed + 1))
        scaled = {part: scaling.get_scale() * gradient for part, gradient in gradients.items()}
        if broken:
            scaled["critic"][0] = torch.inf
        else:
            stepped(plain, gradients)
        assert stepped(adam, scaled, scaling=scaling) == float(broken)
        scales.append(scaling.get_scale())
    assert scales == [1024.0, 512.0, 512.0, 512.0, 1024.0, 1024.0]
    for part in held:  # scales are powers of two
        torch.testing.assert_close(held[part], others[part], rtol=1e-6, atol=1e-7)
    assert adam.state("actor")["step"].item() == adam.state("critic")["step"].item() == 5.0


def test_parameters_and_state_stay_where_they_are():
    held = flats()
    adam = ClippedAdam(held, ADAM, 1.0)
    addresses = [t.data_ptr() for part in held for t in (held[part], *adam.state(part).values())]
    assert tuple(adam.state("actor")) == STATE
    assert not any(tensor.any() for tensor in state_of(adam).values())
    for seed in range(2):
        stepped(adam, flats(seed))
    assert addresses == [t.data_ptr() for part in held for t in (held[part], *adam.state(part).values())]


def test_gradients_of_the_last_step_can_be_dropped():
    adam = ClippedAdam(flats(), ADAM, 1.0)
    stepped(adam, flats(1))
    assert adam.gradient.numel() > 0
    adam.drop_gradients()
    assert all(flat.grad is None for flat in adam._parts.values())
