"""Where the benches of the search keep what took long."""

import json
from pathlib import Path

from infra.whole_file import write_whole

OUT = Path(__file__).parents[1] / "out"


def keep(path: Path, data: object) -> None:
    """Write what took long to find, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(data).encode())
