"""Settings of the run."""

from typing import Literal

from pydantic import BaseModel, Field

from longstride.setting_groups.fields import FIELDS


class Run(BaseModel):
    """The length of a run, its seed, its evaluations and its folder."""

    model_config = FIELDS

    training_episodes: int = Field(default=50, ge=1)
    """Length of the whole run, in episodes or iterations. Integer >= 1. It counts episodes of the simulator if rollouts
    grow (GROW_ROLLOUTS), and iterations otherwise; 50,000 steps of shorter episodes, or 10,000 of Gymnasium, count as
    one. It includes what a resumed run has already done. More: better policies, proportionally longer."""

    total_steps: int = Field(default=0, ge=0)
    """Length of the whole run in environment steps, instead of TRAINING_EPISODES. Integer >= 0; 0 for none. It is
    rounded up to whole iterations, or to whole episodes if rollouts grow."""

    preset: Literal["", "quick_test", "standard", "production", "extended", "guide", "large_transformer"] = ""
    """Length of the run, by name. "quick_test" (10 million steps), "standard" (50), "production" (200) and "extended"
    (500) set TRAINING_EPISODES, NUM_EPOCHS (10, 12, 15, 20) and EVALUATE_EVERY (25, 50, 100, 200), unless you changed
    them; NUM_EPOCHS stays 1 if the policy starts from a rule of the simulator. "guide" sets sizes for comparisons of
    speed, "large_transformer" those of a policy with 100 million parameters (docs/how-to/plan-a-gpu-run.md)."""

    time_budget: str = ""
    """Wall-clock limit of the run, over all resumptions. "3h", "90m", "1h30m", "45s", "2.5h"; "" for none. The run
    stops before an iteration that would exceed it. Learning rates fall with the elapsed time, so the result depends on
    the clock. If TRAINING_EPISODES has its default and PRESET is "", only the time ends the run."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of all random streams of the run. Integer >= 0. The same seed on the same machine gives the same result."""

    evaluation_episodes: int = Field(default=30, ge=2)
    """Episodes per evaluation, the same ones for all policies. Integer >= 2. More: narrower intervals; four times as
    many halve them."""

    evaluate_every: int = Field(default=-1, ge=-1)
    """Iterations between two evaluations during training. Integer >= -1; 0 for none; -1 for about eight evaluations, in
    at most a tenth of the run's steps. They choose the policy of the run and do not change what is learned."""

    run_directory: str = ""
    """Folder of the run. "" for runs/<simulator>, runs/<simulator>-2, ..."""

    track: Literal["", "wandb", "mlflow"] = ""
    """Service that shows the run while it trains: "wandb" (Weights & Biases), "mlflow"; "" for none. It needs the
    service's package (docs/how-to/track-a-run.md)."""

    checkpoints_kept: int = Field(default=3, ge=1, le=1000)
    """Number of most recent checkpoints to keep, besides the best one. Integer 1 .. 1000. If one is damaged, the
    previous one is used."""
