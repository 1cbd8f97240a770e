#!/usr/bin/env python
"""Every figure that is owed of a GPU, in one command that can be resumed. See --help and docs/benchmarks.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.gpu_report.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
