"""The parameters that a step's matrix products read, in half precision or not, and their gradients as a flat tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longstride.hardware.types import Precision
from longstride.policies.networks import ActorCritic

DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class StepParameters:
    """What a loss is differentiated by: parameters of a model, of hidden layers their copies in half precision.

    Heads, log-standard deviations and feature weights stay in float32: their outputs are exponentiated and compared.
    This is what autocast does, with one launch for all copies of a step in place of one for each.

    Attributes:
        leaves: tensors by name.
        dtype: number format of hidden layers.
    """

    def __init__(self, model: ActorCritic, names: Sequence[str], precision: Precision) -> None:
        self._model, self._names, self.dtype = model, names, DTYPES[precision]
        self.leaves: dict[str, Tensor] = {name: model.tensors[name] for name in names}
        self._copy: Tensor | None = None
        if precision != "fp32":
            self._copy = torch.zeros_like(model.flat.detach(), dtype=self.dtype)
            for name in filter(model.is_hidden, names):
                self.leaves[name] = model.layout.view(self._copy, name).detach().requires_grad_()

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the parameters as they are now."""
        if self._copy is not None:
            self._copy.copy_(self._model.flat)

    def new_flat(self, room: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return room for gradients as :meth:`flat` has them."""
        new = self._model.flat.new_zeros if self._model.layout.has_gaps else self._model.flat.new_empty
        return new(len(self._model.flat) + room, dtype=dtype)

    @torch.no_grad()
    def flat(self, gradients: Sequence[Tensor], room: int = 0) -> Tensor:
        """Return the gradients by the leaves in the layout of the model, and room for more numbers behind them.

        Gaps between the parameters of a part are 0; other places, and the room, hold any numbers.
        """
        flat = self.new_flat(room)
        for dtype in {gradient.dtype for gradient in gradients}:
            named = [(name, g) for name, g in zip(self._names, gradients, strict=True) if g.dtype == dtype]
            targets = [self._model.layout.view(flat, name) for name, _ in named]
            torch._foreach_copy_(targets, [gradient for _, gradient in named])
        return flat
