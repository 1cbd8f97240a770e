#!/usr/bin/env python
"""Every GPU measurement that is still missing, in one resumable command. See --help and docs/benchmarks.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src" / "core")]


def main() -> int:
    """Run the report; without a package that the report itself needs, say so in a sentence."""
    try:
        from benchmarks.gpu_report.command import main as report
    except ModuleNotFoundError as error:
        print(f"error: The Python package {error.name} is missing; pip install {error.name}.", file=sys.stderr)
        return 2
    return report()


if __name__ == "__main__":
    sys.exit(main())
