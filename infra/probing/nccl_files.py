"""The files from which NCCL takes settings that nobody passed to a server."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from infra.probing.facts import NcclFile

NAMED_BY = "NCCL_CONF_FILE"
"""The variable that names a file instead of the one in the home folder (NCCL 2.23 and later)."""


def read_nccl_files(server_env: Mapping[str, str], root: Path) -> tuple[NcclFile, ...]:
    """Return the files that a server of this environment reads. Raises OSError."""
    own = server_env.get(NAMED_BY) or f"{server_env.get('HOME', '')}/.nccl.conf"
    paths = [root / "etc/nccl.conf", Path(own)]
    return tuple(_read(path) for path in paths if path.is_file())


def _read(path: Path) -> NcclFile:
    content = path.read_bytes()
    lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
    pairs = [line.partition("=") for line in lines if not line.startswith("#") and "=" in line]
    settings = tuple((name.strip(), value.strip()) for name, _, value in pairs)
    return NcclFile(str(path), hashlib.sha256(content).hexdigest()[:12], settings)
