"""Starts the command line."""

import os

from orchestrator.cli import app


def main() -> None:
    """Run the command line."""
    # Our matrices are small, and the cores belong to the server: threads only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app(prog_name="orchestrator")


if __name__ == "__main__":
    main()
