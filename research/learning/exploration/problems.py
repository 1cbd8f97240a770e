"""The problems by name, and what each is for."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from research.learning.exploration.batches import BatchServer
from research.learning.exploration.booking import Booking
from research.learning.exploration.bursts import RareBurst
from research.learning.exploration.channels import Channels
from research.learning.exploration.crews import Crews
from research.learning.exploration.fishery import Fishery
from research.learning.exploration.hidden_goal import HiddenGoal
from research.learning.exploration.line import RepairedLine
from research.learning.exploration.lot_sizing import LotSizing
from research.learning.exploration.machines import FAULTS, HiddenMachine
from research.learning.exploration.paths import DeepSea, RiverSwim
from research.learning.exploration.priced import PricedQueue
from research.learning.exploration.rooms import TWO_KEYS, KeyDoor
from research.learning.exploration.routing import Routing
from research.learning.exploration.servers import ThreeQueues
from research.learning.exploration.spares import Spares
from research.learning.exploration.supply import TwoEchelons
from research.learning.further_problems_of_search import Polling


class Problem(NamedTuple):
    """How a problem is made, and whether defaults may be chosen on it; the other ones are only reported."""

    make: Callable[[], Any]
    for_tuning: bool


PROBLEMS = {
    "three_queues": Problem(ThreeQueues, True),
    "inspection": Problem(HiddenMachine, True),
    "river_swim": Problem(RiverSwim, True),
    "rare_burst": Problem(RareBurst, True),
    "two_echelons": Problem(TwoEchelons, True),
    "polling": Problem(Polling, True),
    "deep_sea": Problem(DeepSea, True),
    "key_door": Problem(KeyDoor, True),
    "deep_sea_20": Problem(partial(DeepSea, 20), False),
    "river_swim_30": Problem(partial(RiverSwim, 30), False),
    "batch_server": Problem(BatchServer, False),
    "three_faults": Problem(partial(HiddenMachine, FAULTS), False),
    "late_burst": Problem(partial(RareBurst, 1e3, 2e-3, 50), False),
    "two_keys": Problem(partial(KeyDoor, TWO_KEYS, 400), False),
    "priced_queue": Problem(PricedQueue, False),
    "repaired_line": Problem(RepairedLine, False),
    "fishery": Problem(Fishery, False),
    "crews": Problem(Crews, False),
    "booking": Problem(Booking, False),
    "channels": Problem(Channels, False),
    "spares": Problem(Spares, False),
    "lot_sizing": Problem(LotSizing, False),
    "routing": Problem(Routing, False),
    "hidden_goal": Problem(HiddenGoal, False),
}
