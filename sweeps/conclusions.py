"""What may and what may not be concluded from one trial. No bound that its data do not imply."""

from collections.abc import Iterator
from enum import Enum, auto

from sweeps.axes import is_environment
from sweeps.evidence import RATE, Evidence
from sweeps.phrases import Measured, counted, figure, listed, slower_or_faster
from sweeps.quality import Verdict
from sweeps.ranking import INDIFFERENCE_FRACTION, Standing
from sweeps.reporting.answer import Answer
from sweeps.results import Estimate, Outcome


class Relation(Enum):
    """How one rate stands to another, as far as their intervals can tell."""

    TIE = auto()
    SLOWER = auto()
    FASTER = auto()
    UNCLEAR = auto()


def relation(mine: Measured, other: Measured) -> Relation:
    """Compare two rates: a tie within 2 %, else only what disjoint intervals show."""
    if abs(mine.value - other.value) <= INDIFFERENCE_FRACTION * abs(other.value):
        return Relation.TIE
    if mine.low is None or mine.high is None or other.low is None or other.high is None:
        return Relation.UNCLEAR
    if mine.high < other.low:
        return Relation.SLOWER
    return Relation.FASTER if mine.low > other.high else Relation.UNCLEAR


def may_conclude(evidence: Evidence) -> Iterator[str]:
    """Say what the data show, strongest first."""
    if evidence.is_broken:
        yield "The variant is broken: its rate is that of other texts. It is never recommended."
    match evidence.result.outcome:
        case Outcome.MEASURED | Outcome.PARTIAL:
            yield from _of_the_rate(evidence)
        case Outcome.STOPPED:
            yield from _of_the_bound(evidence)
        case Outcome.INFEASIBLE:
            yield "This configuration does not run on this host with this version of SGLang."
        case Outcome.HUNG:
            yield f"It made no progress {evidence.result.where}, for that long."
        case Outcome.FAILED | Outcome.CANCELLED:
            yield "Nothing about the configuration."
    yield from _of_the_ceiling(evidence)


def may_not_conclude(evidence: Evidence) -> Iterator[str]:
    """Say what a hasty reader would take from the trial, and the data do not show."""
    yield from _not_of_the_outcome(evidence)
    yield from _not_of_the_algorithm(evidence)
    yield from _not_of_real_hosts(evidence)
    if evidence.rate is not None:
        yield from _not_of_short_measurements(evidence)
        yield from _not_of_other_prompts(evidence)
        yield from _not_of_other_starts(evidence)
    yield from _not_of_texts(evidence)
    yield from _not_of_settings(evidence)


def _of_the_rate(evidence: Evidence) -> Iterator[str]:
    rate, plain, best = evidence.rate, evidence.plain, evidence.recommended
    if rate is None:
        return
    mine, answer = evidence.standing or rate, evidence.answer
    if answer is not None and evidence.is_recommended:
        yield from _of_the_answer(answer, evidence.word)
        if answer.verdict is not None and answer.gains:
            return
    if evidence.result.config.is_plain:
        yield "This is plain decode: what speculation in this sweep has to beat."
    elif plain is not None:
        yield _against(mine, plain, "plain decode", ", the best plain decode")
    else:
        yield "Nothing about a gain: no plain decode was measured on this host."
    if best is not None and best.variant != evidence.result.config.variant and best != plain:
        named = "what the sweep recommends" if answer else "the fastest variant of the sweep"
        yield _against(mine, best, named)


def _of_the_answer(answer: Answer, word: str) -> Iterator[str]:
    """Say that a variant is what the sweep recommends, and how sure that is."""
    yield "It is a start of the variant that the sweep recommends."
    yield from answer.sure
    if answer.verdict is not None:
        yield from (f"{word}{gain} ({gain.how})." for gain in answer.gains)


def _against(mine: Measured, other: Standing, name: str, remark: str = "") -> str:
    ratio = mine.value / other.value
    numbers = f"{figure(mine.value)} against {figure(other.value, 'tok/s')}{remark}; {ratio:.2f} x"
    match relation(mine, other):
        case Relation.TIE:
            return f"It cannot be told from {name}: a tie within 2 % ({numbers})."
        case Relation.SLOWER | Relation.FASTER:
            return f"On these prompts it is {_than(ratio, name)} ({numbers})."
        case Relation.UNCLEAR:
            return f"It looks {_than(ratio, name)} ({numbers}), but their intervals do not show it."


def _than(ratio: float, name: str) -> str:
    """Write `slower than plain decode by about half`, or `2.00 times as fast as plain decode`."""
    how = slower_or_faster(ratio)
    if how.endswith("as fast"):
        return f"{how} as {name}"
    word, by = how.split(" ", 1)
    return f"{word} than {name} {by}"


def _of_the_bound(evidence: Evidence) -> Iterator[str]:
    bound = evidence.result.bound
    if bound is None:
        yield "It was ended as surely worse than the leader of the sweep."
        return
    yield f"Its rate is at most {figure(bound, 'tok/s')}: surely less than the leader's."
    plain = evidence.by_rate.plain
    if plain is not None and plain.low is not None and bound < plain.low:
        yield f"That is below plain decode too, which reaches {figure(plain.low, 'tok/s')}."


def _of_the_ceiling(evidence: Evidence) -> Iterator[str]:
    factors = evidence.factors
    if factors is None or factors.most_tok_s is None:
        return
    most = f"{figure(factors.most_tok_s, 'tok/s')} if every draft were accepted"
    if factors.can_pay:
        yield (
            f"At this cycle a stream would reach {most}. So the cycle alone does not rule the"
            " setting out: the accept length decides, and that depends on the text."
        )
    else:
        yield f"At this cycle a stream would reach {most}, less than plain decode; no text helps."


def _not_of_the_outcome(evidence: Evidence) -> Iterator[str]:
    match evidence.result.outcome:
        case Outcome.PARTIAL:
            yield (
                "The deadline proves nothing about speed. The rate so far is all that is known;"
                " the prompts that were not finished might have gone faster or slower."
            )
        case Outcome.STOPPED:
            yield "Its rate itself is open: it was watched only until it was surely worse."
        case Outcome.HUNG:
            yield "It is not known to be slow, nor to hang for ever: nobody waited longer."
        case Outcome.INFEASIBLE:
            yield "It says nothing about speed, other hosts, other versions or other settings."
        case Outcome.FAILED | Outcome.CANCELLED:
            yield "It is not known to be slow or unable to run. It may be tried again."
        case Outcome.MEASURED:
            return


def _not_of_the_algorithm(evidence: Evidence) -> Iterator[str]:
    algorithm = evidence.result.config.algorithm
    if algorithm is None:
        return
    settings = evidence.measured_settings()
    yield (
        f"One setting says nothing about {algorithm} with others: each number of draft tokens has"
        f" its own cycle and accept length. This sweep has measured"
        f" {counted(settings, 'setting')} of {algorithm} so far."
    )


def _not_of_real_hosts(evidence: Evidence) -> Iterator[str]:
    if evidence.result.emulated:
        yield (
            "It says nothing about a real host: this one was EMULATED, its speed is that of a cost"
            " model."
        )


def _not_of_short_measurements(evidence: Evidence) -> Iterator[str]:
    names = [name for name, e in evidence.result.estimates.items() if e.provisional]
    if names:
        yield (
            "Provisional, measured for too short a time or on too few requests for an interval that"
            f" holds: {listed(names)}."
        )


def _not_of_other_prompts(evidence: Evidence) -> Iterator[str]:
    wide = [
        name
        for name, estimate in evidence.result.estimates.items()
        if describes_prompts_like_these(estimate) and estimate.low is not None
    ]
    text = f"Other prompts may give another rate: the interval of {RATE} is about these."
    if wide:
        text += f" The spread between prompts is in the intervals of {listed(wide)}."
    yield text


def describes_prompts_like_these(estimate: Estimate) -> bool:
    """Tell whether an interval comes from the spread between requests, not within them."""
    return "between requests" in estimate.method or "over requests" in estimate.method


def _not_of_other_starts(evidence: Evidence) -> Iterator[str]:
    standing = evidence.standing
    if standing is None:
        return
    if len(standing.trials) == 1:
        yield "Another start of the server may give another rate: this was one start."


def _not_of_texts(evidence: Evidence) -> Iterator[str]:
    quality = evidence.quality
    if evidence.result.config.is_plain or evidence.rate is None:
        return
    if quality is None or quality.verdict is Verdict.UNKNOWN:
        why = "nobody compared them" if quality is None else quality.reason
        yield f"Its texts are not known to be plain decode's: {why}."


def _not_of_settings(evidence: Evidence) -> Iterator[str]:
    """A server gives no account of its environment."""
    names = [
        name
        for name, value in evidence.result.config.items()
        if value is not None and is_environment(name)
    ]
    if names and evidence.rate is not None:
        yield (
            f"{listed(names)} may be without effect: a server gives no account of its environment,"
            " only a change of speed would show one."
        )
