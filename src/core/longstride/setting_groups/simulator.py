"""Settings of the simulator."""

from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from longstride.setting_groups.fields import FIELDS


class Simulation(BaseModel):
    """Which simulator a run plays, and its options."""

    model_config = FIELDS

    simulator: str = "process"
    """Simulator of the run. "process"; a classic problem: "cartpole", "mountain_car", "mountain_car_continuous",
    "acrobot", "pendulum"; a problem with a known optimum: "base_stock", "criss_cross", "hospital", "lost_sales",
    "n_model", "reentrant_line", "tandem"; "gymnasium:CartPole-v1"; or your own: "package.module:Class",
    "path/to/file.py:Class"."""

    simulator_options: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the simulator's class. JSON values, such as {"max_steps": 1_000}. The flag --simulator-option
    max_steps=1000 sets one; flags replace all values of this file. The process simulator has none."""

    scenario: str = "loan_desk"
    """Scenario of the process simulator: the bundled "loan_desk", or a JSON file."""

    objective: str = ""
    """What a policy minimises. Weights of the quantities that the simulator declares, such as "cost=1 tardiness=20"; ""
    for its own objective, which is the mean cycle time of a process. Quantities of a process: cycle_time, tardiness,
    late, cost, waiting, handovers, overtime. Times count in hours, or in time units where these are abstract."""

    due: str = ""
    """Due date of each case of a process. "5 days" after its arrival, "gold=1 day, other=5 days" for classes of cases,
    or "column NAME" for a column of EVENT_LOG with dates; "" for those of the scenario. Units: minutes, hours, days,
    weeks."""

    cost: str = ""
    """Costs of a process. The amount that each person costs in an hour at work, such as "40"; "column NAME" for a
    column of EVENT_LOG with that amount of each person; or a CSV file with the columns name and cost: a person or
    everyone with the cost of an hour, or an activity with that of a task. "" for those of the scenario."""

    target: str = ""
    """Share of the cases of a process that should be done in time, such as "95% within 10 days". The weight of a missed
    target is found during training; "" for none."""

    main_metric: str = ""
    """Metric by which the best policy of a process is chosen. Such as "p95_cycle_time", "share_late", "mean_tardiness"
    or "cost_per_case"; "" for that of the objective."""

    class_weights: str = ""
    """How often a case of a class counts in OBJECTIVE, for a process with classes of cases. "gold=3" counts each hour
    of a gold case three times, "gold=3, other=2" those of the other classes twice; "" for the weights of the scenario,
    once without any."""

    late_cases: Literal["", "in turn", "last"] = ""
    """When queues of a process serve cases that can no longer be in time. "in turn": in the order of the log; "last":
    after all others, of which the case with the earliest due date goes first; "" for what the scenario says."""

    batch_start: Literal["", "ready", "policy"] = ""
    """When a batch of a process begins. "ready": when it is full, or has waited as long as in the log; "policy": when
    the policy begins it, with the tasks that are waiting; "" for what the scenario says."""
