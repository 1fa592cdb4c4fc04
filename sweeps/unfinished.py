"""What work that a deadline cut off proves about its rate, and what it does not."""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.records import EndReason, RequestRecord
from sweeps.stopping import upper_bound


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is proved; None for what is not. A rate is at least `least` and below `below`."""

    least_tok_s: float | None = None
    below_tok_s: float | None = None
    ttft_above_s: float | None = None

    def __str__(self) -> str:
        if self.ttft_above_s is not None:
            return f"no token came for {self.ttft_above_s:.3g} s; its rate is unknown"
        ends = []
        if self.least_tok_s:
            ends.append(f"at least {self.least_tok_s:.3g}")
        if self.below_tok_s is not None:
            ends.append(f"below {self.below_tok_s:.3g}")
        return f"{' and '.join(ends)} tok/s"


def bound_of_unfinished(request: RequestRecord) -> Bounds | None:
    """Return what a streamed request proves that did not finish.

    None where no bound is needed or none is implied: it finished, it failed, or it streamed, and
    then its tokens so far are an exact observation of its rate.
    """
    if request.times_s or request.end not in (EndReason.DEADLINE, EndReason.CANCELLED):
        return None
    return Bounds(ttft_above_s=request.ended_s - request.due_s)


def bound_of_finished_count(
    finished: int, asked: int, tokens_each: int, limit_s: float
) -> Bounds | None:
    """Return what is known of a rate when answers come whole, one after another, up to a limit.

    `finished` of `asked` answers of `tokens_each` came in `limit_s`; the next did not. None where
    all came: then the time that they took is the observation. Raises: ValueError for counts that
    contradict each other, or no time.
    """
    if not 0 <= finished <= asked or tokens_each < 1 or limit_s <= 0:
        raise ValueError(f"{finished} of {asked} answers of {tokens_each} tokens in {limit_s} s")
    if finished == asked:
        return None
    least = finished * tokens_each / limit_s
    return Bounds(least or None, (finished + 1) * tokens_each / limit_s)


def cannot_finish(
    block_rates_per_s: Sequence[float],
    left_tokens: float,
    left_s: float,
    *,
    prior_cv: float,
    alpha: float = 0.05,
) -> bool:
    """Tell whether the tokens that are left cannot come in the time that is left.

    By the bound of `sweeps.stopping`, so one may ask after each block; below two blocks nothing
    is known. The answer is a reason to stop and report the rate so far, not a failure.
    """
    if len(block_rates_per_s) < 2:
        return False
    return upper_bound(block_rates_per_s, prior_cv, alpha) * left_s < left_tokens
