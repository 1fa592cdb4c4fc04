"""Which drafter the settings of an emulated server ask for."""

from collections.abc import Sequence
from typing import Protocol

from infra.emulated.drafting.chain import ChainDrafter
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import HostTruth, hit_rates
from sweeps.drafting.ngram import MatchWindow, NgramDrafter, NgramShape

NODE_LIMIT = 1_000_000
"""The emulator's own limit (about 70,000 tokens of text); a larger capacity counts as this."""


class RequestDrafter(Protocol):
    """Drafts for one request. One thread."""

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Draft; return how many drafts of this verify match what the target will write.

        All requests of a batch draft before the first of them commits.
        """
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in tokens that are now part of the output."""
        ...

    def end(self, unseen: Sequence[int]) -> None:
        """Take in what overlap scheduling computes after the request's last commit.

        `unseen` are the last verify's accepted tokens that the request had no room for. Not to
        be called where SGLang knew the end beforehand: one token was missing before that verify.
        """
        ...


class Drafter(Protocol):
    """Makes drafters for requests and holds what they share."""

    def open(self, prompt: Sequence[int], key: int) -> RequestDrafter:
        """Start a request. `key` identifies its prompt."""
        ...

    def reset(self) -> None:
        """Forget what was learnt, as a cache flush does. Requests must be idle."""
        ...


def make_drafter(settings: Settings, truth: HostTruth) -> Drafter:
    """Make the drafter that the settings name."""
    match settings.algorithm:
        case Algorithm.PLAIN:
            return ChainDrafter((), 0)
        case Algorithm.NGRAM:
            return NgramDrafter(ngram_shape(settings))
        case Algorithm.EAGLE:
            kept = truth.eagle_breadth_gain
            hits = hit_rates(settings.draft_model)
            depth = max(0, min(settings.draft_steps, settings.draft_tokens - 1))
            # A tree has no more candidates of a depth than tokens beside its chain.
            beside = (settings.draft_tokens - 1 - depth) / max(1, depth)
            further = min(settings.topk - 1, beside)
            rates = [1 - (1 - rate) * (1 - kept) ** further for rate in hits]
            return ChainDrafter(tuple(rates), depth)


def ngram_shape(settings: Settings) -> NgramShape:
    """Read how the n-gram drafter of a server drafts."""
    windowed = settings.match_window
    return NgramShape(
        draft_tokens=settings.draft_tokens,
        depth=settings.max_depth,
        min_breadth=settings.min_breadth,
        max_breadth=settings.max_breadth,
        by_likelihood=settings.match_type == "PROB" and not windowed,
        capacity_nodes=min(settings.capacity_nodes, NODE_LIMIT),
        sam_budget=settings.sam_budget,
        window=MatchWindow(settings.min_match, settings.max_match) if windowed else None,
        inserts_behind=settings.ngram_inserts_behind,
        overlap=settings.overlap,
    )
