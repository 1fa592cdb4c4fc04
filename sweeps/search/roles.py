"""What an axis has to do with speed, by its name: drafting, communication, or anything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from sweeps.config import Config
from sweeps.values import Value

DRAFT_TOKENS = "speculative_num_draft_tokens"
DRAFT_STEPS = "speculative_num_steps"
ALGORITHM = "speculative_algorithm"
TREE_BREADTH = "speculative_eagle_topk"
CHAINS = ("EAGLE", "EAGLE3", "STANDALONE")
"""Drafters that take a step of their own for each token, and learn nothing while they serve."""


class Role(StrEnum):
    """What an axis moves: a drafting axis the accept length and the width of a verify, the others
    the time of a step."""

    DRAFTING = "drafting"
    COMMUNICATION = "communication"
    GENERAL = "general"


@dataclass(frozen=True, slots=True)
class Trait:
    """A row of the table: names that fit `pattern` have this role.

    A change of the axis is expected to add `cost` to the logarithm of a step's time, give or take
    `spread`: defaults are chosen well. A bold axis chooses another way to communicate, and is tried
    before the model asks for it; a replacing one takes the place of all other transport, so that
    where it does nothing for plain decode it does nothing at all.
    """

    pattern: str
    role: Role
    spread: float
    cost: float = 0.0
    bold: bool = False
    replaces: bool = False


TRAITS = (
    Trait("speculative_*", Role.DRAFTING, 0.1),
    Trait("ngram_*", Role.DRAFTING, 0.1),
    Trait("*ALLREDUCE*", Role.COMMUNICATION, 0.25, bold=True, replaces=True),
    Trait("disable_custom_all_reduce", Role.COMMUNICATION, 0.05, 0.01),
    Trait("*all_reduce*", Role.COMMUNICATION, 0.2, bold=True, replaces=True),
    Trait("*allreduce*", Role.COMMUNICATION, 0.2, bold=True, replaces=True),
    Trait("NCCL_PROTO", Role.COMMUNICATION, 0.2, bold=True),
    Trait("NCCL_P2P_DISABLE", Role.COMMUNICATION, 0.15, 0.1),
    Trait("NCCL_*", Role.COMMUNICATION, 0.018, 0.02),
    Trait("*", Role.GENERAL, 0.06, 0.01),
)
"""The first that fits counts (SGLang's and NCCL's names)."""

WANTED: Mapping[str, tuple[Value, ...]] = {
    DRAFT_TOKENS: (4, 3, 5, 6, 8),
    DRAFT_STEPS: (2, 3, 1),
    "speculative_eagle_topk": (1,),
    "speculative_ngram_max_bfs_breadth": (4, 3, 2, 5, 6, 8, 1),
    "ngram_match_depth": (18, 16, 12),
    "speculative_ngram_match_type": ("BFS",),
    "NCCL_PROTO": ("LL",),
}
"""What a person tries first, best first; axes that are not named are left at their default."""


KNOWN_COSTS: Mapping[str, Mapping[Value, float]] = {"NCCL_PROTO": {"Simple": 0.15}}
"""Of values that are known to cost: in logarithms of a step's time (NCCL's own latencies)."""

WIDENING: Mapping[str, float] = {
    "speculative_ngram_max_bfs_breadth": 0.04,
    "ngram_match_depth": 0.02,
}
"""What an axis adds to the logarithm of an accept length from its one end to the other, as more
matches can only add: an expectation, no more."""


@cache
def trait_of(name: str) -> Trait:
    """Return the row of the table that an axis name fits."""
    return next(trait for trait in TRAITS if fnmatchcase(name, trait.pattern))


def cost_of(name: str, value: object) -> float:
    """Return what a change of an axis to a value is expected to cost: a logarithm."""
    known = KNOWN_COSTS.get(name, {}).items()
    return next((cost for v, cost in known if v == value), trait_of(name).cost)


def role_of(name: str) -> Role:
    """Return what an axis has to do with speed."""
    return trait_of(name).role


def drafting_of(config: Mapping[str, Value]) -> Config:
    """Return the settings that decide what is drafted."""
    return Config.of({n: v for n, v in config.items() if role_of(n) is Role.DRAFTING})


def serving_of(config: Mapping[str, Value]) -> Config:
    """Return the other settings: those that decide what a step of a given width costs."""
    return Config.of({n: v for n, v in config.items() if role_of(n) is not Role.DRAFTING})


def width_of(config: Mapping[str, Value]) -> int:
    """Return how many tokens a step verifies; plain decode has 1.

    Where neither draft tokens nor steps are swept, SGLang's defaults vary: 4 stands for them.
    """
    if config.get(ALGORITHM) is None:
        return 1
    tokens, steps = config.get(DRAFT_TOKENS), config.get(DRAFT_STEPS)
    if isinstance(tokens, int):
        return tokens
    return steps + 1 if isinstance(steps, int) else 4


def reach_of(config: Mapping[str, Value]) -> int:
    """Return the most tokens that a step can commit: its width, or how deep its drafts go."""
    steps = config.get(DRAFT_STEPS)
    return min(width_of(config), steps + 1) if isinstance(steps, int) else width_of(config)
