"""Starts the command line."""

from orchestrator.cli import app


def main() -> None:
    """Run the command line."""
    app(prog_name="orchestrator")


if __name__ == "__main__":
    main()
