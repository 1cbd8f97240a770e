"""What the doctor looks at and what it says: plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.config import Config
from core.hardware.diagnostics import Diagnostics
from core.hardware.planning.plan import Plan
from core.hardware.types import Gpu, Machine, PlanSettings

Level = Literal["ok", "warning", "broken", "not measured"]


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: its name.
        level: ``broken`` where a run cannot work as asked, ``warning`` where it wastes something.
        measured: what was found, with its figures.
        remedy: what to do; empty if nothing.
    """

    check: str
    level: Level
    measured: str
    remedy: str = ""


@dataclass(frozen=True)
class Case:
    """A run on a machine.

    Attributes:
        config: of the run.
        machine: as detected.
        settings: of the plan.
        plan: None where settings and machine contradict each other.
        plan_error: why there is none.
        checkpoint_bytes: of one checkpoint.
        actor_bytes: of the weights that a decision reads at most.
        around: what else was asked.
        records: of the run's metrics.jsonl; empty where there is none.
    """

    config: Config
    machine: Machine
    settings: PlanSettings
    plan: Plan | None
    plan_error: str
    checkpoint_bytes: int
    actor_bytes: int
    around: Diagnostics
    records: Sequence[dict[str, Any]] = ()

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that the run would use; None on the CPU."""
        return self.machine.gpu if self.plan is not None and self.plan.device == "cuda" else None

    def of_phase(self, phase: str, figure: str) -> list[float]:
        """Return a figure of the GPU in a phase, of every record that has it."""
        phases = [(record.get("gpu") or {}).get(phase) or {} for record in self.records]
        return [float(each[figure]) for each in phases if each.get(figure) is not None]

    def figures(self, name: str) -> list[float]:
        """Return a figure of every record that has it."""
        return [float(record[name]) for record in self.records if record.get(name) is not None]
