"""Whether a variant still writes what plain decode writes on the same prompts, or broke it.

Greedy decoding gives one text for each prompt. Speculation and communication settings may only
change when a token comes, or which of two nearly equal ones wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sweeps.loops import Loop, find_loop
from sweeps.records import EndReason, PassRecord

EARLY_TOKENS = 8
"""A text that leaves plain decode's within so many tokens left it early.

In bf16 the real server of SGLang 0.5.23 left its own plain text at tokens 69 and 79 of 128, in 2
of 3 prompts: about 0.7 % a token, so 5 % of prompts would leave this early by near ties. A
verification that reads wrong data leaves at the first or second token.
"""

EARLY_SHARE = 0.5
"""More than this share of early prompts is broken: by near ties alone that happens to 0.3 % of
variants with 2 prompts, 0.9 % with 3, 0.06 % with 4."""

LEAST_PROMPTS = 2
"""One prompt that leaves early proves nothing."""

LOOP_SHARE = 0.25
"""Greedy models get stuck now and then. This share of prompts beyond those on which plain decode
does, and at least two where there are two, is no accident."""

_CUT_LETTER = "\ufffd"
"""What stands at the end of a stream that was cut within a letter."""


class Verdict(StrEnum):
    """How the texts of a variant stand to plain decode's."""

    SAME = "same"
    DIVERGES_LATE = "diverges_late"
    """Near ties fell otherwise; the texts are as good."""
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """There was nothing to compare; nothing speaks against the variant either."""

    @property
    def recommendable(self) -> bool:
        """Tell whether a variant with this verdict may be recommended for production."""
        return self is not Verdict.BROKEN


@dataclass(frozen=True, slots=True)
class Output:
    """What was written for one prompt; `finished` if to its own end or its limit of tokens."""

    text: str
    output_tokens: int
    finished: bool

    @property
    def is_empty(self) -> bool:
        """Tell whether the answer came and holds nothing to read."""
        return self.finished and not self.text.strip()


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a trial wrote, by the keys of its prompts; greedy if `temperature` is 0."""

    by_prompt: Mapping[str, Output]
    temperature: float = 0.0

    @classmethod
    def of(cls, record: PassRecord, temperature: float = 0.0) -> "Outputs":
        """Take the texts of a pass, by the keys of its prompts; requests without one are left."""
        return cls(
            {
                r.prompt_key: Output(r.text, r.output_tokens, r.end is EndReason.FINISHED)
                for r in record.requests
                if r.prompt_key
            },
            temperature,
        )

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        by_prompt = {key: asdict(output) for key, output in self.by_prompt.items()}
        return {"temperature": self.temperature, "by_prompt": by_prompt}

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> "Outputs":
        """Read back what `as_data` wrote."""
        by_prompt: Mapping[str, Mapping[str, object]] = data["by_prompt"]  # type: ignore[assignment] # from as_data
        outputs = {
            key: Output(**output)  # type: ignore[arg-type] # from as_data
            for key, output in by_prompt.items()
        }
        return cls(outputs, float(data["temperature"]))  # type: ignore[arg-type] # from as_data


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt: where the text of the variant leaves plain decode's, and what became of it."""

    prompt: str
    diverges_at_char: int | None
    """None: equal as far as both go."""
    diverges_at_token: int | None
    """The same in tokens, by the mean length of a token in this text; counted from 0."""
    loop: Loop | None
    """The variant got stuck in it."""
    plain_loop: Loop | None
    empty: bool
    """The variant answered with nothing where plain decode wrote something."""

    @property
    def is_early(self) -> bool:
        """Tell whether near ties alone would hardly diverge so soon."""
        return self.diverges_at_token is not None and self.diverges_at_token < EARLY_TOKENS

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "prompt": self.prompt,
            "diverges_at_char": self.diverges_at_char,
            "diverges_at_token": self.diverges_at_token,
            "loop": self.loop.as_data() if self.loop else None,
            "plain_loop": self.plain_loop.as_data() if self.plain_loop else None,
            "empty": self.empty,
        }


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The verdict, the sentence that justifies it, and what it rests on."""

    verdict: Verdict
    reason: str
    comparisons: tuple[Comparison, ...] = ()

    @property
    def identical_fraction(self) -> float | None:
        """Return the share of prompts with equal texts; None where none was compared."""
        if not self.comparisons:
            return None
        same = sum(c.diverges_at_char is None for c in self.comparisons)
        return same / len(self.comparisons)

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "verdict": self.verdict.value,
            "reason": self.reason,
            "identical_fraction": self.identical_fraction,
            "comparisons": [c.as_data() for c in self.comparisons],
        }


def judge(outputs: Outputs | None, reference: Outputs | None) -> QualityReport:
    """Compare the outputs of a variant with those of plain decode on the prompts of both."""
    if outputs is None or reference is None:
        return QualityReport(Verdict.UNKNOWN, "there are no outputs of both to compare")
    temperature = max(outputs.temperature, reference.temperature)
    if temperature > 0:
        why = f"outputs were sampled at temperature {temperature:g}: they differ by chance"
        return QualityReport(Verdict.UNKNOWN, why)
    found = []
    for key in sorted(outputs.by_prompt.keys() & reference.by_prompt.keys()):
        compared = compare(key, outputs.by_prompt[key], reference.by_prompt[key])
        if compared is not None:
            found.append(compared)
    if not found:
        return QualityReport(Verdict.UNKNOWN, "no prompt was answered by both")
    verdict, reason = _verdict(found)
    return QualityReport(verdict, reason, tuple(found))


def compare(key: str, output: Output, reference: Output) -> Comparison | None:
    """Compare one prompt; None where plain decode wrote nothing, or the variant nothing yet."""
    if not reference.text.strip() or (not output.text and not output.finished):
        return None
    text, plain = _whole_letters(output), _whole_letters(reference)
    at = first_divergence(text, plain)
    if at == min(len(text), len(plain)) and _is_cut(output, text, reference, plain):
        at = None
    token = None
    if at is not None:
        token = int(at * reference.output_tokens / max(1, len(plain)))
    # Where plain decode was cut, a loop that begins later has no counterpart.
    seen = text if reference.finished else text[: len(plain)]
    return Comparison(
        prompt=key,
        diverges_at_char=at,
        diverges_at_token=token,
        loop=find_loop(seen) if at is not None else None,
        plain_loop=find_loop(plain) if at is not None else None,
        empty=output.is_empty,
    )


def first_divergence(one: Sequence[object], other: Sequence[object]) -> int | None:
    """Return the position from which two texts, or lists of token ids, differ; None if equal."""
    for position, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


def _whole_letters(output: Output) -> str:
    return output.text if output.finished else output.text.rstrip(_CUT_LETTER)


def _is_cut(output: Output, text: str, reference: Output, plain: str) -> bool:
    """Tell whether the shorter of two texts is only shorter because its request was cut off."""
    shorter = output if len(text) < len(plain) else reference
    return not shorter.finished


def _verdict(found: Sequence[Comparison]) -> tuple[Verdict, str]:
    prompts = len(found)
    if empty := sum(c.empty for c in found):
        return Verdict.BROKEN, f"{empty} of {prompts} answers are empty"
    early = sum(c.is_early for c in found)
    if prompts >= LEAST_PROMPTS and early > EARLY_SHARE * prompts:
        return Verdict.BROKEN, (
            f"{early} of {prompts} texts leave plain decode's within {EARLY_TOKENS} tokens"
        )
    stuck = sum(c.loop is not None and c.plain_loop is None for c in found)
    cured = sum(c.loop is None and c.plain_loop is not None for c in found)
    if stuck - cured >= max(min(prompts, 2), LOOP_SHARE * prompts):
        return (
            Verdict.BROKEN,
            f"{stuck} of {prompts} texts end in a loop where plain decode's do not",
        )
    if early == prompts:
        return Verdict.UNKNOWN, "the only text diverges early, and one is too few to judge"
    return _harmless(found)


def _harmless(found: Sequence[Comparison]) -> tuple[Verdict, str]:
    tokens = [c.diverges_at_token for c in found if c.diverges_at_token is not None]
    if not tokens:
        return Verdict.SAME, f"all {len(found)} texts are plain decode's"
    return Verdict.DIVERGES_LATE, (
        f"{len(tokens)} of {len(found)} texts leave plain decode's, the first at about token"
        f" {min(tokens)}, as near ties do"
    )
