"""Models of the service's answers, for its OpenAPI page."""

from pydantic import BaseModel, Field


class Choice(BaseModel):
    """A person for a task."""

    person: str
    activity: str
    case: str


class Alternative(BaseModel):
    """Another person who could do a task."""

    person: str
    service_time: float = Field(description="mean service time")
    status: str = Field(description="free, busy or off shift")


class Assignment(Choice):
    """A feasible assignment with its reasons; times are in time_unit."""

    together: list[str] = Field(description="further cases of the batch, which begin with it")
    probability: float = Field(description="of this choice under the policy")
    chosen_by: list[str] = Field(description="heuristics that choose it, too")
    waited: float = Field(description="since the task began to wait")
    case_age: float = Field(description="since the case was opened")
    queue: int = Field(description="tasks that wait for this activity")
    service_time: float = Field(description="mean service time of this person for this activity")
    fastest_service_time: float = Field(description="that of the fastest person")
    others: int = Field(description="other people who can do it")
    free_others: int = Field(description="those of them who are free")
    alternatives: list[Alternative] = Field(description="the fastest others")
    reason: str = Field(description="the figures in words")


class Postpone(BaseModel):
    """The choice to assign nothing now."""

    probability: float
    meaning: str


class Answer(BaseModel):
    """A recommendation."""

    recommended: Choice | None = Field(description="null to assign nothing now")
    words: str = Field(description="the recommendation in words")
    assignments: list[Assignment] = Field(description="the recommended one first, then by probability")
    feasible: int = Field(description="number of feasible assignments")
    postpone: Postpone
    heuristics: dict[str, Choice | None] = Field(description="what each heuristic would choose")
    time_unit: str = Field(description="unit of the times; empty if the scenario has none")
    action: int = Field(description="number of the chosen action of the simulator, -1 if there was nothing to decide")
    drawn: bool = Field(description="whether the action was drawn with its probability, not the most likely one")
    memory: str = Field(description="to be given with the next state, if it is not empty")
    policy_sha256: str = Field(description="digest of the policy's parameters")
    version: str = Field(description="version of Longstride")


class Health(BaseModel):
    """State of the service."""

    status: str
    scenario: str
    policy: str
    version: str = Field(description="version of Longstride")
    iteration: int = Field(description="iteration of the checkpoint")
    mean_of_late_policies: bool = Field(default=False, description="whether it is the mean of those up to there")
    policy_sha256: str = Field(default="", description="digest of the policy's parameters")
    draws: bool = Field(default=False, description="whether it draws: an evaluation has shown that to be better")
    checkpoint_age_seconds: float | None = Field(default=None, description="since the checkpoint was written")
    answered: int = Field(description="recommendations of all workers since the service started")


class Problem(BaseModel):
    """The reason for refusing a request."""

    error: str
