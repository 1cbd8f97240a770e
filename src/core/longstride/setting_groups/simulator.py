"""Settings of the simulator."""

from pydantic import BaseModel, Field, JsonValue

from longstride.setting_groups.fields import FIELDS


class Simulation(BaseModel):
    """Which simulator a run plays, and its options."""

    model_config = FIELDS

    simulator: str = "process"
    """Simulator to play. "process"; a classic problem: "cartpole", "mountain_car", "mountain_car_continuous",
    "acrobot", "pendulum"; a problem with a known optimum: "base_stock", "criss_cross", "hospital", "lost_sales",
    "n_model", "reentrant_line", "tandem"; "gymnasium:CartPole-v1"; or your own: "package.module:Class",
    "path/to/file.py:Class"."""

    simulator_options: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the simulator's class. JSON values, such as {"max_steps": 1_000}. The flag --simulator-option
    max_steps=1000 sets one; flags replace all values of this file. The process simulator has none."""

    scenario: str = "loan_desk"
    """Scenario of the process simulator: the bundled "loan_desk", or a JSON file."""
