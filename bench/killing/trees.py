"""The servers that are ended, by how their processes behave."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from infra.host import Command, Reservation
from infra.sglang_cpu.launch import COMMON_FLAGS, server_argv, server_variables
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout

ROOT = Path(__file__).parents[2]
TIME_SCALE = 2000.0
GRACE_S, REAL_GRACE_S = 0.5, 2.0
LEASE_S, REAL_LEASE_S = 2.0, 10.0
"""Wall seconds. A busy machine may keep the heart of a real server's owner from beating."""


class Tree(StrEnum):
    """What a server's processes do when their end comes."""

    PLAIN = "plain"
    """They end when asked, or when their root does."""
    DETACHED = "detached"
    """Two leave session and tree, and one of them keeps the server's port."""
    DEAF = "deaf"
    """All of them ignore SIGTERM."""
    SGLANG = "sglang"
    """The real one on a CPU: root, scheduler and detokenizer."""

    @property
    def grace_s(self) -> float:
        """Return the wall seconds between asking and killing."""
        return REAL_GRACE_S if self is Tree.SGLANG else GRACE_S

    @property
    def lease_s(self) -> float:
        """Return the wall seconds that the tree lives without a sign of life."""
        return REAL_LEASE_S if self is Tree.SGLANG else LEASE_S


EMULATED = (Tree.PLAIN, Tree.DETACHED, Tree.DEAF)

_WORLDS = {
    Tree.PLAIN: "",
    Tree.DETACHED: "[processes]\ndetached = 2\ndetached_keep_port = true\n",
    Tree.DEAF: "[processes]\nignore_sigterm = true\nworkers_ignore_sigterm = true\n",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server of one run works: its folder and the tags of its trial."""

    folder: Path
    sweep: str
    tree: Tree

    @property
    def log_path(self) -> Path:
        """Return where the server writes."""
        return self.folder / f"{self.tree}.log"


def is_built() -> bool:
    """Tell whether the environment of the real SGLang is there."""
    return (ROOT / DEFAULT_ENV / "bin" / "python").exists() and (ROOT / DEFAULT_MODEL).exists()


def command(place: Place, reserved: Reservation) -> Command:
    """Return how a server of a kind is started."""
    argv, env = _real(reserved) if place.tree is Tree.SGLANG else _emulated(place, reserved)
    return Command(
        argv,
        {**env, "TMPDIR": str(reserved.temp_folder)},
        place.log_path,
        place.sweep,
        place.tree.value,
        inherit=("PATH",),
        cwd=ROOT,
        grace_s=place.tree.grace_s,
        lease_s=place.tree.lease_s,
    )


def _emulated(place: Place, reserved: Reservation) -> tuple[tuple[str, ...], dict[str, str]]:
    world = place.folder / f"{place.tree}.toml"
    world.write_text(_WORLDS[place.tree])
    argv = (
        sys.executable, "-m", "infra.emulated", "--model-path", "m", "--tp-size", "2",
        "--port", str(reserved.port), "--nccl-port", str(reserved.rendezvous_port),
    )  # fmt: skip
    return argv, {"EMULATED_TIME_SCALE": f"{TIME_SCALE:g}", "EMULATED_SCENARIO": str(world)}


def _real(reserved: Reservation) -> tuple[tuple[str, ...], dict[str, str]]:
    env = EnvLayout(ROOT / DEFAULT_ENV)
    flags = (*COMMON_FLAGS, "--nccl-port", str(reserved.rendezvous_port))
    argv = server_argv(env, ROOT / DEFAULT_MODEL, port=reserved.port, flags=flags)
    return tuple(argv), server_variables(env)
