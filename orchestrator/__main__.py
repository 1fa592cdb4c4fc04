"""Starts the command line."""

import os

from orchestrator.cli import app
from orchestrator.signals import hear_ctrl_c
from orchestrator.terminal import guard_streams


def main() -> None:
    """Run the command line."""
    # Our matrices are small, and the cores belong to the server: threads only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    hear_ctrl_c()
    guard_streams()
    app(prog_name="orchestrator")


if __name__ == "__main__":
    main()
