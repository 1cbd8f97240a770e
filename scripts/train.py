#!/usr/bin/env python
"""The one command: train, evaluate, compare, plan, check. See --help, README.md and hyperparameters.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src" / "core"))

from longstride.import_path import leave_out_working_folder  # noqa: E402

leave_out_working_folder()

from longstride.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(default_file=ROOT / "hyperparameters.py"))
