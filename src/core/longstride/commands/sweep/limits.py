"""How long a sweep is: trials, time, and what is kept for the comparison at its end."""

from dataclasses import dataclass

from longstride.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Length of a sweep, over all of its calls.

    Raises:
        UserError: a number is out of range.
    """

    trials: int = 20  # trials at most
    minutes: float | None = None  # for the base settings, the trials and the comparison at the end; None for no limit
    finalists: int = 2  # best trials that are compared with the base settings at the end
    held_out_seeds: int = 4  # seeds of that comparison; 0 for none

    def __post_init__(self) -> None:
        for flag, value, least in (
            *(("--trials", self.trials, 1), ("--finalists", self.finalists, 1)),
            ("--held-out-seeds", self.held_out_seeds, 0),
        ):
            if value < least:
                raise UserError(f"{flag}: {value} should be {least} or more.")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise UserError(f"--sweep-minutes: {self.minutes:g} should be more than 0.")
        if self.held_out_seeds == 1:
            raise UserError(
                "--held-out-seeds: a single seed gives no interval; take 2 or more, or 0 for no comparison."
            )

    def another_trial(self, ended: int, spent: float, each: float) -> bool:
        """Return whether another trial begins.

        Args:
            ended: trials that have ended.
            spent: seconds of all trainings so far.
            each: seconds that a training usually takes.
        """
        if ended >= self.trials:
            return False
        final = (self.finalists + 1) * self.held_out_seeds * each
        return self.minutes is None or spent + each + final <= 60.0 * self.minutes
