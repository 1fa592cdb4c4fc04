"""A host as it is known before any server was started: a plain step, and what a verify costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeps.config import Config
from sweeps.prediction.observations import Observation, Work
from sweeps.problems import BadInputError, Problem
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.search.evidence import PRIOR

_Z = 1.96


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """What a verify of some tokens takes, in plain steps, and the spread of that as a fraction."""

    tokens: int
    plain_steps: float
    spread_fraction: float = 0.1


@dataclass(frozen=True, slots=True)
class HostProfile:
    """What is known or assumed. `source` says by whom."""

    plain_step_ms: float
    plain_spread_fraction: float = 0.05
    verify: tuple[VerifyCost, ...] = ()
    source: str = "the profile"

    def plain_trial(self, plain: Config, host: str, *, emulated: bool) -> TrialResult:
        """Return what is expected of plain decode, in the form of a trial."""
        rate = 1000 / self.plain_step_ms
        half = _Z * self.plain_spread_fraction * rate
        estimate = Estimate(rate, rate - half, rate + half, 0.0, self.source, provisional=True)
        return TrialResult(
            PRIOR, PRIOR, -1, plain, Outcome.MEASURED, self.source, Phase.CLEAN, emulated, host,
            "", 0.0, "", estimates={"decode_tok_s": estimate, "steps_per_s": estimate},
            purpose=PRIOR,
        )  # fmt: skip

    def verify_steps(self, serving: Config, plain_step_ms: float) -> list[Observation]:
        """Return what verify steps are expected to take where a plain one takes so long."""
        return [
            Observation(
                Work("NGRAM", cost.tokens, serving),
                cost.plain_steps * plain_step_ms,
                cost.spread_fraction,
            )
            for cost in self.verify
        ]


PUBLISHED = HostProfile(
    12.2,
    0.15,
    (VerifyCost(2, 1.27, 0.1), VerifyCost(8, 2.55, 0.08)),
    "published figures of one such host (82 tok/s plain, 31 ms a cycle at 8 draft tokens)",
)
"""[assumption] The spread: hosts of this class differ by more than their figures tell."""


def profile_of(data: Mapping[str, object], source: str) -> HostProfile:
    """Read a profile from plain data. Raises BadInputError with all that is wrong.

    `plain_step_ms` or `plain_tok_s`; `verify` maps a number of tokens to plain steps, or to a
    table of `plain_steps` and `spread_fraction`.
    """
    reader = _Reader(source, [])
    known = {"plain_step_ms", "plain_tok_s", "plain_spread_fraction", "verify"}
    for name in data.keys() - known:
        reader.wrong(name, data[name], "no such field", f"There are {', '.join(sorted(known))}.")
    step_ms = reader.number("plain_step_ms", data.get("plain_step_ms"))
    rate = reader.number("plain_tok_s", data.get("plain_tok_s"))
    if (step_ms is None) == (rate is None) and not reader.problems:
        mend = "Give `plain_step_ms` or `plain_tok_s`."
        reader.wrong("plain_step_ms", step_ms, "the plain step is given by one of two", mend)
    spread = reader.number("plain_spread_fraction", data.get("plain_spread_fraction", 0.05))
    verify = reader.verify(data.get("verify", {}))
    if reader.problems:
        raise BadInputError(source, reader.problems)
    return HostProfile(step_ms or 1000 / (rate or math.nan), spread or 0.05, verify, source)


@dataclass(frozen=True, slots=True)
class _Reader:
    source: str
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, name: str, value: object, why: str, mend: str) -> None:
        self.problems.append(Problem(name, str(value), why, mend))

    def number(self, name: str, value: object) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            self.wrong(name, value, "it is no number above zero", "Write a number.")
            return None
        return float(value)

    def verify(self, value: object) -> tuple[VerifyCost, ...]:
        if not isinstance(value, Mapping):
            self.wrong("verify", value, "it is no table", "Write `[verify]` and `8 = 2.5` below.")
            return ()
        found = []
        for tokens, cost in value.items():
            name = f"verify.{tokens}"
            table = cost if isinstance(cost, Mapping) else {"plain_steps": cost}
            steps = self.number(name, table.get("plain_steps"))
            spread = self.number(name, table.get("spread_fraction", 0.1))
            if not str(tokens).isdecimal() or int(tokens) < 2:
                self.wrong(name, tokens, "a verify has 2 tokens or more", "Name their number.")
            elif steps is None:
                self.wrong(name, cost, "its cost is missing", "Write `8 = 2.5`, in plain steps.")
            else:
                found.append(VerifyCost(int(tokens), steps, spread or 0.1))
        return tuple(found)
