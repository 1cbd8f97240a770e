"""The problems by name, and what each is for."""

from collections.abc import Callable
from typing import Any, NamedTuple

from research.learning.exploration.machines import HiddenMachine
from research.learning.exploration.paths import DeepSea, KeyDoor, RiverSwim
from research.learning.exploration.servers import ThreeQueues
from research.learning.further_problems_of_search import Polling


class Problem(NamedTuple):
    """How a problem is made, and whether defaults may be chosen on it; the other ones are only reported."""

    make: Callable[[], Any]
    for_tuning: bool


PROBLEMS = {
    "three_queues": Problem(ThreeQueues, True),
    "inspection": Problem(HiddenMachine, True),
    "river_swim": Problem(RiverSwim, True),
    "polling": Problem(Polling, True),
    "deep_sea": Problem(DeepSea, True),
    "key_door": Problem(KeyDoor, True),
}
