"""The published optima of the 32 instances of the lost-sales problem, and the best levels of the classical rules.

Optima: Zipkin, "Old and new methods for lost-sales inventory systems", Operations Research 56(5), 2008, with two digits
after the point; value iteration agrees with each (``tests/oracles/lost_sales.py``). Levels: each rule was simulated for
4,000,000 periods on the same demand at every level (and cap) around the best; costs near the best are flat.
"""

from typing import NamedTuple

MEAN_DEMAND = 5  # units a period
LEAD_TIMES, PENALTIES, DEMANDS = (1, 2, 3, 4), (4, 9, 19, 39), ("poisson", "geometric")


class Figures(NamedTuple):
    """What is known of an instance.

    Attributes:
        optimum: average cost a period of the best policy.
        level: best base-stock level, units of stock and orders together.
        capped_level: level of the best capped base-stock rule.
        cap: its largest order, units.
        constant: best constant order, units.
    """

    optimum: float
    level: int
    capped_level: int
    cap: int
    constant: int


FIGURES = {  # demand, penalty -> lead times 1 .. 4
    ("poisson", 4): (
        Figures(4.04, 12, 12, 6, 4),
        Figures(4.40, 16, 17, 5, 4),
        Figures(4.60, 20, 21, 5, 4),
        Figures(4.73, 25, 26, 5, 4),
    ),
    ("poisson", 9): (
        Figures(5.44, 13, 14, 6, 4),
        Figures(6.09, 19, 19, 6, 4),
        Figures(6.53, 23, 24, 6, 4),
        Figures(6.84, 28, 29, 5, 4),
    ),
    ("poisson", 19): (
        Figures(6.68, 15, 15, 8, 4),
        Figures(7.66, 21, 21, 7, 4),
        Figures(8.36, 26, 26, 6, 4),
        Figures(8.89, 31, 31, 6, 4),
    ),
    ("poisson", 39): (
        Figures(7.84, 16, 16, 9, 4),
        Figures(9.11, 22, 22, 8, 4),
        Figures(10.04, 28, 28, 7, 4),
        Figures(10.79, 33, 34, 6, 4),
    ),
    ("geometric", 4): (
        Figures(9.82, 12, 13, 5, 3),
        Figures(10.24, 15, 17, 5, 3),
        Figures(10.47, 18, 19, 5, 3),
        Figures(10.61, 21, 23, 5, 3),
    ),
    ("geometric", 9): (
        Figures(14.51, 17, 18, 8, 4),
        Figures(15.50, 22, 23, 6, 4),
        Figures(16.14, 26, 27, 6, 4),
        Figures(16.58, 30, 32, 5, 4),
    ),
    ("geometric", 19): (
        Figures(19.22, 22, 22, 13, 4),
        Figures(20.89, 28, 28, 9, 4),
        Figures(22.06, 33, 34, 8, 4),
        Figures(22.95, 38, 39, 7, 4),
    ),
    ("geometric", 39): (
        Figures(23.87, 27, 27, 16, 4),
        Figures(26.21, 34, 34, 12, 4),
        Figures(27.96, 40, 40, 10, 4),
        Figures(29.36, 45, 46, 9, 4),
    ),
}


def figures_of(demand: str, penalty: int, lead_time: int) -> Figures:
    """Return what is known of an instance; the arguments are among ``DEMANDS``, ``PENALTIES`` and ``LEAD_TIMES``."""
    return FIGURES[demand, penalty][lead_time - 1]
