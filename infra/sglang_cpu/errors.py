"""What can end a build.

BuildError
├── StepError               a step failed or overran its deadline
├── ForeignDirectoryError   the directory holds something that is not ours to remove
└── BuildBusyError          another process is building the same directory
"""

from pathlib import Path


class BuildError(Exception):
    """A build ended early; what it left is marked as unfinished."""


class StepError(BuildError):
    """A step failed or overran its deadline."""


class ForeignDirectoryError(BuildError):
    """The directory holds something that is not ours to remove."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"{directory} is not empty and holds no build of this tool: name another directory"
        )


class BuildBusyError(BuildError):
    """Another process is building the same directory."""

    def __init__(self, directory: Path, deadline_s: float) -> None:
        super().__init__(f"another process was still building {directory} after {deadline_s:.0f} s")
