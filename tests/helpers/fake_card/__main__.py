"""``python -m helpers.fake_card GUARD_LIBRARY`` prints what updates on the fake card did, as JSON.

A process of its own, because the guard must be loaded before torch is imported.
"""

import json
import sys
from pathlib import Path

from helpers.fake_card.card import fake_card, load_guard


def main() -> None:
    """Load the guard, then torch and all that imports it."""
    load_guard(Path(sys.argv[1]))
    from helpers.fake_card.updates import run_cases

    print(json.dumps(run_cases(fake_card())))


if __name__ == "__main__":
    main()
