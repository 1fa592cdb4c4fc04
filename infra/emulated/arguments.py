"""The command line of the emulated server: SGLang's own, by version; the emulation's own settings
come from the environment only.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.emulated.scenario import Overrides
from infra.emulated.scenario_file import ScenarioError, ScenarioSource
from infra.emulated.truth import DEFAULT_TRUTH, TRUTHS, HostTruth
from infra.emulated.versions import manners
from infra.sglang.flags import FLAGS, NEWEST, Flag
from infra.sglang.protocol import Feature, has
from sweeps.exporters.launches import UnreadableExportError
from sweeps.exporters.sglang_yaml import words_of
from sweeps.values import Value

PROGRAM = "sglang serve"
EXIT_USAGE = 2

_ALIASES = {
    "model_path": ("--model",),
    "dist_init_addr": ("--nccl-init-addr",),
    "pp_size": ("--pipeline-parallel-size",),
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
        if flag.exists_in(version):
            _add(parser, name, flag, version)
    return parser


def _add(parser: argparse.ArgumentParser, name: str, flag: Flag, version: str) -> None:
    spellings = (f"--{name.replace('_', '-')}", *_ALIASES.get(name, ()))
    dest = flag.stands_for(version) or name
    if flag.kind is bool:
        parser.add_argument(*spellings, dest=dest, action="store_true", default=None)
        return
    free = name == "speculative_algorithm" and manners(version).free_algorithm
    parser.add_argument(
        *spellings,
        dest=dest,
        type=flag.kind,
        choices=None if free else flag.choices_in(version) or None,
        required=name == "model_path",
        nargs="+" if flag.many else None,
    )


def with_config(argv: Sequence[str], version: str) -> list[str]:
    """Put the words of the file that `--config` names before all others, as SGLang does.

    Raises EmulationError.
    """
    words, option = list(argv), Feature.CONFIG_FILE
    if option.value not in words or not has(option, version):
        return words
    at = words.index(option.value)
    try:
        path = Path(words[at + 1])
        return [*words_of(path.read_text()), *words[:at], *words[at + 2 :]]
    except (OSError, IndexError, UnreadableExportError) as error:
        raise EmulationError(f"{option.value}: {error}") from error


def parse(argv: Sequence[str], version: str) -> dict[str, Value]:
    """Return the arguments that were given, by name. Exits with 2 as argparse does."""
    parsed = vars(make_parser(version).parse_args(argv))
    return {
        name: " ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in parsed.items()
        if value is not None
    }


def overridden(
    given: Mapping[str, Value], environment: Mapping[str, str], overrides: Overrides
) -> tuple[dict[str, Value], dict[str, str]]:
    """Return arguments and variables as somebody else's word makes them."""
    return {**given, **overrides.args}, {**environment, **overrides.env}


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
