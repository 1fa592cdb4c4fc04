"""Where sweeps from elsewhere lie on a host, below the folder of ours."""

from dataclasses import dataclass
from pathlib import Path

SENT = "sent"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of ours on a host. Both sides name its parts by this."""

    root: Path

    @property
    def state(self) -> Path:
        """Return the state folder of the sweeps there: the truth about them."""
        return self.root / "state"

    @property
    def sent(self) -> Path:
        """Return what came from elsewhere; it goes with the state folder."""
        return self.state / SENT

    @property
    def blobs(self) -> Path:
        """Return where files that were sent lie, each under its hash: each is sent once."""
        return self.sent / "blobs"

    @property
    def runs(self) -> Path:
        """Return the folders of the commands that were started from elsewhere."""
        return self.sent / "runs"

    @property
    def snapshots(self) -> Path:
        """Return where copies of databases wait to be fetched."""
        return self.sent / "snapshots"

    def space(self, name: str) -> Path:
        """Return the folder that a space file and what it needs are laid out in."""
        return self.sent / "spaces" / name

    def run(self, run: str) -> Path:
        """Return the folder of one command."""
        return self.runs / run
