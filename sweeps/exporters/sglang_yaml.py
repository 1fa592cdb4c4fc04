"""The recommendation as the file that SGLang's own `--config` reads, from 0.5.3 on.

SGLang makes `--key value` of each entry, so keys are written as options are. What it cannot hold,
variables and some flags, goes to a second file.
"""

import json
from typing import Any

from sweeps.exporters.containers import PYTHON
from sweeps.exporters.env_file import ARGUMENTS, variables
from sweeps.exporters.launches import MODULE, Launch, Reading, UnreadableExportError
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command

NOT_TAKEN = frozenset({
    "--dcp-replicate-q-proj", "--disable-cuda-graph", "--dllm-fdfo",
    "--enable-decoder-swa-bounded-replay", "--enable-dp-attention", "--enable-dsa-fused-indexer",
    "--enable-fused-qk-norm-rope", "--enable-tf32-matmul", "--enable-tp-lm-head-all-to-all",
    "--experts-shared-outer-loras", "--lora-paths", "--lora-strict-loading",
    "--mm-enable-dp-encoder", "--ple-offload-embedding",
    "--speculative-enable-w4a4-mxfp4-megamoe",
})  # fmt: skip
"""Flags that SGLang 0.5.23 refuses in the file (srt/utils/server_args_config_parser.py)."""


def write(what: Recommendation) -> str:
    """Write the options that the file can hold."""
    import yaml  # light commands do without it

    held = {g[0].removeprefix("--"): _value(g) for g in _held(what.launch)}
    body = yaml.safe_dump(held, sort_keys=False, width=1_000_000).rstrip("\n")
    lines = [*comments(what), *_use(what), body, *as_comments(record(what, "yaml"))]
    return "\n".join(lines) + "\n"


def write_beside(what: Recommendation) -> str:
    """Write what the file cannot hold, for a shell and for systemd; empty if that is nothing."""
    rest = left_out(what.launch)
    if not rest.options and not rest.env:
        return ""
    head = f"What the configuration file of plan {what.launch.plan} cannot hold."
    return "\n".join([*comments(what)[: what.trial.emulated], f"# {head}", *variables(rest)]) + "\n"


def left_out(launch: Launch) -> Launch:
    """Return what the file cannot hold."""
    held = set(_held(launch))
    words = [word for group in launch.grouped if group not in held for word in group]
    return Launch(tuple(words), launch.env)


def read(text: str) -> Reading:
    """Read the options that stand in the file. Raises UnreadableExportError."""
    return read_command([PYTHON, "-m", MODULE, *words_of(text)], {})


def words_of(text: str) -> list[str]:
    """Make words of a file as SGLang does. Raises UnreadableExportError."""
    import yaml

    try:
        held = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnreadableExportError(f"it is no YAML: {error}") from error
    if not isinstance(held, dict):
        raise UnreadableExportError("it holds no options")
    return [word for key, value in held.items() for word in _words(f"--{key}", value)]


def _use(what: Recommendation) -> list[str]:
    rest = left_out(what.launch)
    more = f' ${ARGUMENTS}"' if rest.options else '"'
    start = f'eval "exec python3 -m sglang.launch_server --config THIS_FILE{more}'
    if not rest.options:
        start = start.removeprefix('eval "').removesuffix('"')
    if rest.env or rest.options:
        start = f"set -a; . THE_FILE_BESIDE.env; {start}"
    return [f"# Start: {start}"]


def _held(launch: Launch) -> list[tuple[str, ...]]:
    """Return the options that the file can hold: each once, since a key stands there once."""
    first: dict[str, tuple[str, ...]] = {}
    for group in launch.grouped:
        first.setdefault(group[0], group)
    return [g for name, g in first.items() if name.startswith("--") and name not in NOT_TAKEN]


def _value(group: tuple[str, ...]) -> Any:
    values = [typed(word) for word in group[1:]]
    if not values:
        return True
    return values[0] if len(values) == 1 else values


def typed(word: str) -> str | int | float:
    """Write a number as one where SGLang makes the same word of it again."""
    kinds: tuple[type[int], type[float]] = (int, float)
    for kind in kinds:
        try:
            value = kind(word)
        except ValueError:
            continue
        if str(value) == word:
            return value
    return word


def _words(option: str, value: Any) -> list[str]:
    """Make words of an entry as SGLang does."""
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, dict):
        return [option, json.dumps(value, default=str)]
    values = value if isinstance(value, list) else [value]
    return [option, *map(str, values)] if values else []
