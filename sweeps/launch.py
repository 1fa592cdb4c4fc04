"""The launch plan of a server: a value that can be printed, compared, stored and exported."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long each part of a server's life may take, in the host's own seconds."""

    start_s: float = 900.0
    """From the launch to the first generated token, all phases together."""
    phase_s: float = 600.0
    """Within one phase of a start, without any sign of progress: cold weights take their time."""
    stop_grace_s: float = 20.0
    """Between asking a server to end and killing it."""
    clean_s: float = 120.0
    """From the end of a server's processes to the proof that the host is clean."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything needed to start one server.

    `env` is what is set, `inherit` names what may pass from the host's own environment; nothing
    else reaches the server. Secrets pass by name only, so a plan never holds one.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    inherit: tuple[str, ...]
    host: str
    port: int
    deadlines: Deadlines = field(default_factory=Deadlines)
    rendezvous_port: int | None = None
    """Where the ranks of the server find each other; None: SGLang picks one itself."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Neutral axis name to the flag that it became in this version."""
    secrets: tuple[tuple[str, str], ...] = ()
    """Argument or variable to the reference that leads to its value. They stand nowhere else."""

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://{self.host}:{self.port}"

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "argv": list(self.argv),
            "env": dict(self.env),
            "inherit": list(self.inherit),
            "url": self.url,
            "start_deadline_s": self.deadlines.start_s,
            "start_phase_deadline_s": self.deadlines.phase_s,
            "stop_grace_s": self.deadlines.stop_grace_s,
            "clean_deadline_s": self.deadlines.clean_s,
            "renamed": dict(self.renamed),
            "secrets": dict(self.secrets),
        }
