"""From the settings of a configuration to how its n-gram drafter drafts, in one SGLang version."""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.drafting.ngram import MatchWindow, NgramShape
from sweeps.values import Value

DRAFT_TOKENS = 12
"""What SGLang takes for the n-gram drafter where nobody says."""

_WINDOW = ("speculative_ngram_min_match_window_size", "speculative_ngram_max_match_window_size")


@dataclass(frozen=True, slots=True)
class NgramForm:
    """What a version of SGLang makes of n-gram settings, and takes where nothing is said."""

    defaults: Mapping[str, Value]
    """The version's flags of the drafter, with what holds unless a configuration differs."""
    spelled: Mapping[str, str]
    """Neutral names of ours to the flag of the version."""
    knows_likelihood: bool = True
    """Match type PROB acts (from 0.5.10)."""
    inserts_behind: bool = True
    """Accepted tokens enter the trie one verify later (from 0.5.14)."""
    overlap: bool = True

    def shape(self, settings: Mapping[str, Value]) -> NgramShape | None:
        """Return how a configuration drafts; None where SGLang would refuse its settings."""
        told = {self.spelled.get(name, name): value for name, value in settings.items()}
        known = {n: told.get(n, v) for n, v in self.defaults.items()}
        window = None
        if _WINDOW[1] in known:
            shortest, longest = (_whole(known, name, 1) for name in _WINDOW)
            depth = _whole(known, "speculative_ngram_branch_length", 18)
            window = MatchWindow(shortest, longest)
            if not 0 < shortest <= longest < depth:
                return None
        else:
            depth = _whole(known, "speculative_ngram_max_trie_depth", 18)
        unsaid = window.longest if window else DRAFT_TOKENS
        prob = known.get("speculative_ngram_match_type") == "PROB"
        shape = NgramShape(
            draft_tokens=_whole(known, "speculative_num_draft_tokens", unsaid),
            depth=depth,
            min_breadth=_whole(known, "speculative_ngram_min_bfs_breadth", 1),
            max_breadth=_whole(known, "speculative_ngram_max_bfs_breadth", 10),
            by_likelihood=prob and self.knows_likelihood,
            capacity_nodes=_whole(known, "speculative_ngram_capacity", 10_000_000),
            sam_budget=_whole(known, "speculative_ngram_external_sam_budget", 0),
            window=window,
            inserts_behind=self.inserts_behind,
            overlap=self.overlap and not told.get("disable_overlap_schedule"),
        )
        return shape if _is_sound(shape) else None


def _is_sound(shape: NgramShape) -> bool:
    breadths = 0 < shape.min_breadth <= shape.max_breadth
    return breadths and shape.depth > 1 and shape.draft_tokens > 0


def _whole(settings: Mapping[str, Value], name: str, default: int) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) else default
