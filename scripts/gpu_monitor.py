#!/usr/bin/env python
"""What the GPUs of this machine do now, whoever uses them. See --help."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src" / "core"))

from longstride.commands.gpu_monitor import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
