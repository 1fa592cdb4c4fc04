"""The command line of the emulated server: SGLang's own, by version; the emulation's own settings
come from the environment only.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.emulated.scenario_file import ScenarioError, ScenarioSource
from infra.emulated.truth import DEFAULT_TRUTH, TRUTHS, HostTruth
from infra.sglang.flags import FLAGS, NEWEST, version_key
from sweeps.values import Value

PROGRAM = "sglang serve"
FREE_ALGORITHM_SINCE = "0.5.12"
"""From here on a wrong algorithm passes the parser and fails later."""
SPLIT_GRAPH_SINCE = "0.5.14"
EXIT_USAGE = 2

_ALIASES = {
    "model_path": ("--model",),
    "tp_size": ("--tensor-parallel-size",),
    "dp_size": ("--data-parallel-size",),
    "ep_size": ("--expert-parallel-size",),
    "speculative_draft_model_path": ("--speculative-draft-model",),
}


class EmulationError(ValueError):
    """A setting of the emulation itself cannot be read."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """How to emulate: which host, how much faster than life, in which world."""

    truth: HostTruth
    time_scale: float = 1.0
    seed: int = 0
    version: str = NEWEST
    gpus: int = 8
    scenario: ScenarioSource = field(default_factory=lambda: ScenarioSource(None))
    host_folder: Path | None = None
    """What the servers of one emulated host share: GPU memory, page cache, compiled kernels."""


def read_emulation(environment: Mapping[str, str]) -> Emulation:
    """Read the EMULATED_* variables. Raises EmulationError naming the one that cannot be read."""
    name = environment.get("EMULATED_TRUTH", DEFAULT_TRUTH)
    if name not in TRUTHS:
        raise EmulationError(f"EMULATED_TRUTH={name}: known are {', '.join(TRUTHS)}")
    scale = _number(environment, "EMULATED_TIME_SCALE", 1.0)
    if scale <= 0:
        raise EmulationError(f"EMULATED_TIME_SCALE={scale:g}: it must be above 0")
    return Emulation(
        truth=TRUTHS[name],
        time_scale=scale,
        seed=int(_number(environment, "EMULATED_SEED", 0)),
        version=environment.get("EMULATED_VERSION", NEWEST),
        gpus=int(_number(environment, "EMULATED_GPUS", 8)),
        scenario=_scenario(_path(environment, "EMULATED_SCENARIO")),
        host_folder=_path(environment, "EMULATED_HOST_FOLDER"),
    )


def make_parser(version: str) -> argparse.ArgumentParser:
    """Build the parser of a version from the flag table."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    for name, flag in FLAGS.items():
        if not flag.exists_in(version):
            continue
        spellings = (f"--{name.replace('_', '-')}", *_ALIASES.get(name, ()))
        if flag.kind is bool:
            parser.add_argument(*spellings, dest=name, action="store_true", default=None)
            continue
        free = name == "speculative_algorithm" and _at_least(version, FREE_ALGORITHM_SINCE)
        parser.add_argument(
            *spellings,
            dest=name,
            type=flag.kind,
            choices=None if free or not flag.choices else flag.choices,
            required=name == "model_path",
        )
    if _at_least(version, SPLIT_GRAPH_SINCE):
        parser.add_argument("--cuda-graph-max-bs-prefill", type=int)
    return parser


def parse(argv: Sequence[str], version: str) -> dict[str, Value]:
    """Return the arguments that were given, by name. Exits with 2 as argparse does."""
    parsed = vars(make_parser(version).parse_args(argv))
    return {name: value for name, value in parsed.items() if value is not None}


def _at_least(version: str, other: str) -> bool:
    return version_key(version) >= version_key(other)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(name)
    return Path(text) if text else None


def _scenario(path: Path | None) -> ScenarioSource:
    try:
        return ScenarioSource(path)
    except ScenarioError as error:
        raise EmulationError(f"EMULATED_SCENARIO={error}") from error


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError as error:
        raise EmulationError(f"{name}={text}: a number is needed") from error
