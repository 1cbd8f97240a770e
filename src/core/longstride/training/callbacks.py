"""Functions of a program that a training calls. They see copies of its records, so they change nothing it learns."""

import copy
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from longstride.errors import UserError
from longstride.simulators.compile_errors import with_line


class StopTraining(Exception):  # noqa: N818 (a request, like StopIteration)
    """Raised by a callback: the training ends after this iteration, with everything saved.

    Its text, if any, is the reason that is printed.
    """


class Callback:
    """What a program does while it trains; override what you need.

    Any object with some of these methods is a callback, too, and a function stands for ``on_iteration``.
    """

    def on_start(self, directory: Path, settings: Mapping[str, Any]) -> None:
        """See the run directory and the settings by name, once everything is ready to train."""

    def on_end(self) -> None:
        """See that the run has ended, after its report."""

    def on_iteration(self, record: Mapping[str, Any]) -> Mapping[str, float] | None:
        """See the record of an iteration before it is written to metrics.jsonl.

        Args:
            record: a copy of the record, JSON values (docs/reference/run-directory.md).

        Returns:
            Further figures for the record, numbers by name, or None.

        Raises:
            StopTraining: the training is to end after this iteration.
        """

    def on_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """See the result of an evaluation that was made after an iteration, before ``on_iteration``.

        Args:
            evaluation: a copy of ``evaluation`` in the record.

        Raises:
            StopTraining: the training is to end after this iteration.
        """


class Callbacks:
    """Calls some callbacks, perhaps none, in their order.

    ``failure`` is raised once the iteration is saved; ``stops`` says whether the training is to end.
    """

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        self._callbacks, self.stops = callbacks, False
        self.failure: UserError | None = None
        self._begun = list[Any]()

    def begin(self, directory: Path, settings: Mapping[str, Any]) -> None:
        """Call all with the run directory and copies of the settings.

        Raises:
            UserError: one fails.
        """
        for callback in self._callbacks:
            try:
                if function := getattr(callback, "on_start", None):
                    function(directory, copy.deepcopy(settings))
            except UserError:
                raise
            except Exception as error:
                raise UserError(f"The callback {name_of(callback)}.on_start failed with {with_line(error)}.") from None
            self._begun.append(callback)

    def end(self) -> list[str]:
        """Call those that have begun; return a line about each that fails."""
        lines = []
        while self._begun:
            callback = self._begun.pop(0)
            try:
                if function := getattr(callback, "on_end", None):
                    function()
            except Exception as error:
                lines.append(f"The callback {name_of(callback)}.on_end failed with {with_line(error)}.")
        return lines

    def see(self, record: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
        """Call all with copies of a record; return their figures as ``{"figures": ...}``, if there are any."""
        figures: dict[str, float | None] = {}
        for callback in self._callbacks:
            if record.get("evaluation") is not None:
                self._call(callback, "on_evaluation", record["evaluation"], say)
            figures |= self._call(callback, "on_iteration", record, say)
        return {"figures": figures} if figures else {}

    def _call(
        self, callback: Any, method: str, seen: Mapping[str, Any], say: Callable[[str], None]
    ) -> dict[str, float | None]:
        """Call a method, if there is one; return the figures. A failure is kept, a stop is said."""
        function = getattr(callback, method, callback if method == "on_iteration" and callable(callback) else None)
        if function is None or self.failure is not None:
            return {}
        where = f"{name_of(callback)}.{method}" if function is not callback else name_of(callback)
        try:
            return _numbers(function(copy.deepcopy(seen)))
        except StopTraining as stop:
            self.stops = True
            say(f"{where} ends the training{f': {stop}' if str(stop) else ''}.")
        except Exception as error:
            self.failure = UserError(f"The callback {where} failed with {with_line(error)}. The iteration is saved.")
        return {}


def name_of(part: Any) -> str:
    """Return the name of a function or class, or of an object's class."""
    return str(getattr(part, "__qualname__", type(part).__qualname__))


def _numbers(returned: Any) -> dict[str, float | None]:
    """Return figures as JSON values; what is not finite becomes None."""
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        raise TypeError(f"it returned {returned!r:.50}, not numbers by name")
    numbers = {str(name): float(value) for name, value in returned.items()}
    return {name: value if isfinite(value) else None for name, value in numbers.items()}
