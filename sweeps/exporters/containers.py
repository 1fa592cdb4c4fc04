"""What the formats for containers have in common."""

from sweeps.exporters.launches import MODULE, PORT
from sweeps.exporters.recommendation import Recommendation, one_line

SHARED_MEMORY = "/dev/shm"
PROBE_EVERY_S = 10
PYTHON = "python3"
HEALTH = "/health"
"""For which SGLang generates a token."""


def command(what: Recommendation) -> list[str]:
    """Return the words that start the server in a container, open to its network."""
    return [PYTHON, "-m", MODULE, *what.options, "--host", "0.0.0.0", "--port", str(PORT)]


def facts(what: Recommendation) -> dict[str, str]:
    """Return where the numbers come from, for labels that stay with a running container."""
    trial = what.trial
    word = {"sglang-sweep/emulated": "EMULATED"} if trial.emulated else {}
    return {
        **word,
        "sglang-sweep/plan": what.launch.plan,
        "sglang-sweep/sweep": trial.sweep,
        "sglang-sweep/trial": trial.trial,
        "sglang-sweep/measured": what.evidence,
        "sglang-sweep/engine-version": trial.engine_version,
        "sglang-sweep/fingerprint": trial.fingerprint or "unknown",
    }


def remarks(what: Recommendation) -> list[str]:
    """Say what a container needs of its host, as comments."""
    lines = [f"# The image was not measured: the sweep ran SGLang {what.trial.engine_version}."]
    places = sorted(name for name, value in what.env.items() if value.startswith("/"))
    if places:
        lines.append(
            f"# {', '.join(places)}: folders of the measured host, maybe not of the image."
        )
    return [one_line(line) for line in lines]


def doubled(text: str) -> str:
    """Write a dollar so that what starts the container does not replace a variable."""
    return text.replace("$", "$$")


def undoubled(text: str) -> str:
    """Read back what `doubled` wrote."""
    return text.replace("$$", "$")
