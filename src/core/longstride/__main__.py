"""The command ``longstride``, installed or as ``python -m longstride``."""

import sys

from longstride.import_path import leave_out_working_folder

leave_out_working_folder()  # before any other import


def run() -> int:
    """Run the command line of this process and return its exit code."""
    from longstride.cli import installed

    return installed()


if __name__ == "__main__":
    sys.exit(run())
