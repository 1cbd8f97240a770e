#!/usr/bin/env python
"""torchrun for the ranks of one host, with a store that this machine alone can reach; it takes torchrun's options."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

from longstride.learning.distributed.loopback import main

if __name__ == "__main__":
    main()
