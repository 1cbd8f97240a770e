"""The predicted time of an update by a plan, and what a second GPU would bring it."""

from dataclasses import dataclass

from longstride.hardware.planning import roofline
from longstride.hardware.planning.gpu_catalog import Card, card_of
from longstride.hardware.planning.plan import Plan
from longstride.hardware.planning.second_gpu import SecondGpu, second_gpu
from longstride.hardware.planning.work import Work
from longstride.hardware.types import Execution, Gpu
from longstride.learning.step_costs.work import update_work
from longstride.policies.spec import PolicySpec


@dataclass(frozen=True)
class Prediction:
    """Predicted time of an update on a card."""

    execution: Execution  # of the executions that the plan tries, the one with the shortest update
    work: Work | None  # work of an update with that execution; None where no figures of the card are known
    seconds: dict[str, float]  # time that each resource would need; empty where no figures of the card are known
    # seconds of an update for each execution that the plan tries; empty in that case
    by_execution: dict[Execution, float]
    by_two: float | None = None  # seconds of the update on each of two cards that share its samples

    @property
    def update_seconds(self) -> float | None:
        """Time of an update; None where no figures of the card are known."""
        return self.by_execution.get(self.execution)

    @property
    def binding(self) -> str | None:
        """The resource that takes longest; None where no figures of the card are known."""
        return roofline.binding(self.seconds) if self.seconds else None


def predict_update(spec: PolicySpec, plan: Plan, gpu: Gpu | None, samples: int, epochs: int) -> Prediction:
    """Return the predicted time of an update."""
    half, card = plan.precision != "fp32", card_of(gpu) if gpu else None
    if card is None:
        return Prediction(plan.executions[0], None, {}, {})
    sizes = spec, half, samples, plan.batch_size, plan.microbatch, epochs
    works = {e: update_work(*sizes, e, plan.gradient_checkpointing) for e in plan.executions}
    seconds = {e: _seconds(work, card, plan) for e, work in works.items()}
    by_execution = {execution: roofline.update_seconds(times) for execution, times in seconds.items()}
    best = min(by_execution, key=by_execution.__getitem__)
    by_two = roofline.update_seconds(_seconds(works[best].shared(2), card, plan))
    return Prediction(best, works[best], seconds[best], by_execution, by_two)


def _seconds(work: Work, card: Card, plan: Plan) -> dict[str, float]:
    return roofline.seconds(work, card, plan.precision, plan.tf32)


def second_gpu_of(prediction: Prediction, spec: PolicySpec, gpu: Gpu | None) -> SecondGpu | None:
    """Return what a second GPU of the kind would bring; None where its figures are not known."""
    card, work, update = card_of(gpu) if gpu else None, prediction.work, prediction.update_seconds
    if card is None or work is None or update is None or prediction.by_two is None:
        return None
    return second_gpu(update, prediction.by_two, work.steps, spec.layout.size, card)
