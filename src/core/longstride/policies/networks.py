"""Actor and critic in torch, all of their tensors views of one flat float32 tensor."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from longstride.errors import UserError
from longstride.policies.candidates import ActionList, initialise_scores, one_of_each_list, scores
from longstride.policies.card_spec import ALIGNMENT, card_spec
from longstride.policies.distributions import distribution_of
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.families.torch_family import FirstLayer, HiddenInputs
from longstride.policies.memory import Memory, Steps, no_memory
from longstride.policies.parameter_layout import ACTION_SCALE, FEATURE_WEIGHTS, LOG_STD, USUAL_LIMIT
from longstride.policies.spec import PolicySpec


class ActorCritic(nn.Module):
    """Actor and critic, two networks of the policy's family that share the normalisation of observations.

    Matrices are stored input-major, ``[inputs, outputs]``, as compiled code reads them, and every tensor is a view of
    ``flat``; copying the model anywhere is one copy of ``flat``. On the CPU it may be page-locked, for a GPU to copy.

    On a GPU the policy's rows are filled up (``card_spec.py``); ``own`` is the layout of the policy itself.

    Attributes:
        layout: names, shapes and offsets of the tensors in ``flat``.
        own: the same of the policy itself.
        on_card: whether rows are filled up.
        distribution: function of :meth:`logits`, ``log_std``, masks and actions.
        flat: float32[n], all tensors one after another.
        tensors: views of ``flat`` by name.
    """

    def __init__(
        self, spec: PolicySpec, device: torch.device | str = "cpu", pinned: bool = False, on_card: bool = False
    ) -> None:
        super().__init__()
        self.own, self.on_card = spec.layout, on_card
        self.spec = spec = card_spec(spec) if on_card else spec
        self.layout = spec.layout.aligned(ALIGNMENT) if on_card else self.own
        self._family = TORCH_FAMILIES[spec.family.name]
        self.distribution = one_of_each_list if spec.scores_actions else distribution_of(spec.action_space)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[spec.activation]
        self.flat = torch.zeros(self.layout.size, dtype=torch.float32, device=device, pin_memory=pinned)
        self.tensors: dict[str, Tensor] = {}
        for name in self.layout.shapes:
            view = self.layout.view(self.flat, name)
            if name.startswith(("actor", "critic")):
                parameter = nn.Parameter(view)
                self.register_parameter(name.replace(".", "_"), parameter)
                view = parameter
            self.tensors[name] = view
        self.tensors["observation_scale"].fill_(1.0)
        self.tensors["value_std"].fill_(1.0)
        if spec.scores_actions:
            self.tensors[ACTION_SCALE].fill_(1.0)

    def own_part(self, tensor: Tensor, name: str) -> Tensor:
        """Return the part of a tensor of a parameter's shape that belongs to the policy itself."""
        return tensor[tuple(slice(size) for size in self.own.shapes[name])]

    def layers(self, part: str, tensors: Mapping[str, Tensor] | None = None) -> list[tuple[Tensor, Tensor]]:
        """Return (weight, bias) of each layer of ``"actor"`` or ``"critic"`` from first to last, or such of others."""
        names, held = self.layout.names(part), self.tensors if tensors is None else tensors
        weights = [name for name in names if name.endswith(".weight")]
        return [(held[name], held[name.removesuffix("weight") + "bias"]) for name in weights]

    def part_parameters(self, part: str) -> list[nn.Parameter]:
        """Return the parameters of ``"actor"`` or ``"critic"``."""
        return [t for name in self.layout.names(part) if isinstance(t := self.tensors[name], nn.Parameter)]

    def is_hidden(self, name: str) -> bool:
        """Return whether a tensor is a weight or bias of a layer before the last."""
        part, number, _ = [*name.split("."), "", ""][:3]
        return number.isdigit() and int(number) < len(self.layers(part)) - 1

    @property
    def has_plain_layers(self) -> bool:
        """Whether each hidden layer is a product with an activation, and nothing else is between them."""
        return self._family.plain_layers

    @property
    def log_std(self) -> Tensor:
        """float32[numbers], the logarithms of a Gaussian policy's standard deviations; empty for other policies."""
        return self.tensors.get(LOG_STD, self.flat[:0])

    def normalise(self, observations: Tensor, tensors: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return float32[B, O] observations shifted, scaled and clipped; see :meth:`logits` for the tensors."""
        held = self.tensors if tensors is None else tensors
        shifted = (observations - held["observation_mean"]) * held["observation_scale"]
        return shifted.clamp(-USUAL_LIMIT, USUAL_LIMIT)

    @torch.no_grad()
    def normalise_on_card(self, observations: Tensor) -> None:
        """Normalise observations that have gone up to a GPU, where they lie: no step does it again."""
        if self.on_card:
            observations.sub_(self.tensors["observation_mean"]).mul_(self.tensors["observation_scale"])
            observations.clamp_(-USUAL_LIMIT, USUAL_LIMIT)

    def normalised(self, observations: Tensor) -> Tensor:
        """Return float32[B, O], a rollout's observations as :meth:`logits` reads them; on a GPU they are so already."""
        return observations if self.on_card else self.normalise(observations)

    def seen_by(self, part: str, normalised: Tensor) -> Tensor:
        """Return float[B, O] observations as ``"actor"`` or ``"critic"`` sees them: the actor has its own limit."""
        limit = self.spec.observation_limit
        return normalised.clamp(-limit, limit) if part == "actor" and limit < USUAL_LIMIT else normalised

    def logits(
        self,
        normalised: Tensor,
        features: Tensor | ActionList | None = None,
        tensors: Mapping[str, Tensor] | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Return float32[B, outputs], unmasked logits or a Gaussian's means, for float32[B, O] and [B, outputs, k].

        ``tensors``, by default the model's own, are the parameters to compute with; see :meth:`values`. Without a
        memory, each observation is the first of an episode. A policy that scores actions returns float32[A], the
        scores of the A feasible actions of all observations.
        """
        logits = self._forward("actor", normalised, tensors, memory)
        if isinstance(features, ActionList):
            return scores(logits, features, {**self.tensors, **(tensors or {})}, self.activation)
        if self.spec.action_features == 0 or features is None:
            return logits
        return self.weigh_features(logits, features, self.tensors if tensors is None else tensors)

    def weigh_features(self, logits: Tensor, features: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return float32[B, outputs], the outputs of the actor's layers with the weighed features of the actions."""
        if self.spec.action_features == 0:
            return logits
        # as a product of matrices with few columns it is slow on a GPU
        return logits + (features * tensors[FEATURE_WEIGHTS]).sum(dim=-1)

    def values(
        self, normalised: Tensor, tensors: Mapping[str, Tensor] | None = None, memory: Memory | None = None
    ) -> Tensor:
        """Return float32[B] values in units of the value normalisation: V = value_mean + value_std * this.

        Hidden layers compute in the number format of their tensors.
        """
        return self._forward("critic", normalised, tensors, memory).squeeze(-1)

    def step(self, normalised: Tensor, tensors: Mapping[str, Tensor], memory: Memory) -> Tensor:
        """Return what :meth:`logits` does without action features for single steps, and replace the states.

        They are such as :attr:`longstride.policies.families.torch_family.TorchFamily.in_place` keeps.
        """
        layers, rows = self.layers("actor", tensors)[:-1], torch.arange(len(normalised), device=normalised.device)
        if self._family.in_place is not None:
            inputs = HiddenInputs(self.spec, self.seen_by("actor", normalised), layers, self.activation, memory)
            return self._head("actor", self._family.in_place.step(inputs), tensors)
        hidden, states = self._hidden("actor", normalised, layers, memory, Steps(rows, torch.zeros_like(rows)))
        memory.states.copy_(states)
        return self._head("actor", hidden, tensors)

    def values_and_states(self, normalised: Tensor, memory: Memory, after: Steps) -> tuple[Tensor, Tensor]:
        """Return what :meth:`values` does, and float32[N, S], the critic's states after some steps."""
        hidden, states = self._hidden("critic", normalised, self.layers("critic")[:-1], memory, after)
        return self._head("critic", hidden, None).squeeze(-1), states

    def hidden_outputs(self, part: str, x: Tensor) -> list[Tensor]:
        """Return the outputs of each hidden layer of ``"actor"`` or ``"critic"``, [B, units], for float32[B, O].

        In a network with memory, each row is the first observation of an episode. The last outputs are those that the
        head reads.
        """
        outputs: list[Tensor] = []
        self._hidden(part, x, self.layers(part)[:-1], None, hidden=outputs)
        return outputs

    def _forward(self, part: str, x: Tensor, tensors: Mapping[str, Tensor] | None, memory: Memory | None) -> Tensor:
        """Return the outputs of a network."""
        hidden, _ = self._hidden(part, x, self.layers(part, tensors)[:-1], memory)
        return self._head(part, hidden, tensors)

    def _head(self, part: str, x: Tensor, tensors: Mapping[str, Tensor] | None) -> Tensor:
        """Return the outputs of the last layer, in float32: they are exponentiated and compared."""
        weight, bias = self.layers(part, tensors)[-1]
        return torch.addmm(bias, x.to(weight.dtype), weight)

    def _hidden(
        self,
        part: str,
        x: Tensor,
        layers: Sequence[tuple[Tensor, Tensor]],
        memory: Memory | None,
        after: Steps | None = None,
        hidden: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of the layers before the last, and float[N, S], the states after some steps.

        Without a memory, each row begins an episode. The outputs of each layer are appended to ``hidden``.
        """
        if memory is None and self.spec.has_memory:
            size = self.spec.state_size if part == "actor" else self.spec.critic_state_size
            memory = no_memory(len(x), size, x)
        inputs = HiddenInputs(self.spec, self.seen_by(part, x), layers, self.activation, memory, after, hidden)
        return self._family.hidden(inputs)


def initialise(
    model: ActorCritic,
    method: str,
    generator: torch.Generator,
    initial_logits: Tensor | None = None,
    initial_log_std: float = 0.0,
    initial_feature_weights: Tensor | None = None,
) -> None:
    """Draw initial parameters of a model on the CPU.

    The method is that of the hidden layers and, times 0.01, of the actor's head: ``"orthogonal"`` (gain sqrt 2:
    Engstrom et al., "Implementation matters in deep policy gradients", 2020), ``"xavier_uniform"`` or
    ``"kaiming_uniform"``. The critic's head is 0: the returns of the first rollout, which set the scale of the value
    normalisation, must not hold the guesses of an untrained network.

    Biases and the weights of the action features are 0, unless the actor's last bias, float32[outputs], or the weights,
    float32[k], are given. All log-standard deviations of a Gaussian policy are the same.
    """
    draw = partial(_initialise_matrix, method=method, generator=generator)
    for part, head_gain in (("actor", 0.01), ("critic", 0.0)):
        layers = model.layers(part)
        with torch.no_grad():
            for i, (weight, bias) in enumerate(layers):
                bias.zero_()
                if 0 < i < len(layers) - 1:
                    layer = FirstLayer((weight, bias), i, len(layers), draw, generator)
                    TORCH_FAMILIES[model.spec.family.name].initialise(layer)
                else:
                    draw(weight, head_gain=head_gain if i == len(layers) - 1 else None)
    if model.spec.scores_actions:
        initialise_scores(
            model.tensors, model.layers("actor")[-1][0], partial(_initialise_matrix, method=method), generator
        )
    with torch.no_grad():
        model.log_std.fill_(initial_log_std)
        if initial_logits is not None:
            model.layers("actor")[-1][1].copy_(initial_logits)
        if initial_feature_weights is not None:
            model.tensors[FEATURE_WEIGHTS].copy_(initial_feature_weights)


def _initialise_matrix(weight: Tensor, method: str, generator: torch.Generator, head_gain: float | None = None) -> None:
    """Draw a matrix [inputs, outputs] of a hidden layer, or of a head with a gain."""
    if method == "orthogonal":
        gain = 2.0**0.5 if head_gain is None else head_gain
        weight.copy_(nn.init.orthogonal_(torch.empty_like(weight.T), gain, generator=generator).T)
    elif method == "xavier_uniform":
        nn.init.xavier_uniform_(weight, 1.0 if head_gain is None else head_gain, generator=generator)
    else:
        nn.init.kaiming_uniform_(weight.T, nonlinearity="relu", generator=generator)
        if head_gain is not None:
            weight.mul_(head_gain)


def restore_model(model: ActorCritic, tensors: dict[str, Tensor]) -> None:
    """Copy the parameters of a checkpoint, named ``model.*``, into a model.

    Raises:
        UserError: the checkpoint has other shapes, or a tensor is missing.
    """
    for name, target in model.tensors.items():
        source = tensors.get(f"model.{name}")
        if source is None or source.shape != target.shape:
            problem = "is missing" if source is None else f"has shape {list(source.shape)}"
            raise UserError(
                f"The checkpoint does not fit: {name} {problem}, expected {list(target.shape)}; use the network "
                "sizes that it was trained with (they are in the run's config.json)."
            )
        with torch.no_grad():
            target.copy_(source)
