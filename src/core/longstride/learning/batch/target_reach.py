"""How far the critic's targets look for rewards before they trust its values, by how much noise that brings."""

_FARTHEST = 5.0
"""How much farther they may look than by the setting."""

_EXPLAINED = 0.99
"""Share of the targets' variance that the critic has to explain for them to look farther."""

_PACE = 1.1
"""Factor of an update."""


class TargetReach:
    """The critic's lambda where values hold together for long: as close to 1 as the noise of its targets allows.

    Close to 1 a critic learns soon from rewards that are far ahead; farther from 1 its targets have less noise. What it
    does not explain of them is noise, or what it does not know yet. So the distance of lambda to 1 falls, to a fifth of
    the chosen one, while the critic explains nearly all, and rises again while it does not. ``factor`` says by how much
    it has fallen.
    """

    def __init__(self) -> None:
        self.factor = 1.0

    def learn(self, explained_variance: float) -> None:
        """Take note of what the critic explained of an update's targets; NaN without a critic."""
        farther = self.factor * (_PACE if explained_variance > _EXPLAINED else 1.0 / _PACE)
        self.factor = min(max(farther, 1.0), _FARTHEST)

    def lambda_of(self, chosen: float) -> float:
        """Return the lambda for the next update where the setting is the chosen one."""
        return chosen if self.factor == 1.0 else 1.0 - (1.0 - chosen) / self.factor
