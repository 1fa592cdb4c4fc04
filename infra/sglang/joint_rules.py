"""Which joint rules one configuration breaks; the rules themselves are tables beside this."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.machine import Machine
from infra.sglang.communication_rules import NCCL_RULES, SERVER_RULES
from infra.sglang.configuration import Configuration
from infra.sglang.flag import within
from infra.sglang.speculation_rules import DRAFT_MODEL_RULES, NGRAM_RULES
from sweeps.problems import Problem
from sweeps.values import Value, show

RULES = (*NGRAM_RULES, *DRAFT_MODEL_RULES, *SERVER_RULES, *NCCL_RULES)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a configuration breaks."""

    rule: str
    fields: tuple[str, ...]
    message: str
    mend: str


def broken_rules(
    settings: Mapping[str, Value], version: str, machine: Machine | None = None
) -> list[Broken]:
    """List the rules that the settings of one configuration break; names may be neutral.

    A value that is not given counts with the version's default.
    """
    seen = Configuration.of(settings, version, machine)
    return [
        Broken(rule.name, rule.fields, rule.message, rule.mend)
        for rule in RULES
        if within(version, rule.first, rule.last) and rule.breaks(seen)
    ]


def joint_problems(
    settings: Mapping[str, Value], version: str, machine: Machine | None = None
) -> list[Problem]:
    """Write broken rules as problems of an input, such as the fixed settings with the baseline."""
    seen = Configuration.of(settings, version, machine)
    return [
        Problem(", ".join(broken.fields), _shown(seen, broken.fields), broken.message, broken.mend)
        for broken in broken_rules(settings, version, machine)
    ]


def _shown(seen: Configuration, fields: tuple[str, ...]) -> str:
    return ", ".join(show(seen.value(name)) for name in fields)
