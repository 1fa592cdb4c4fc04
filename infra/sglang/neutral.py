"""Names of ours for knobs that SGLang renamed."""

from dataclasses import dataclass

from infra.sglang.flag import within


@dataclass(frozen=True, slots=True)
class Spelling:
    """The flag that a neutral setting becomes, from its first to its last version."""

    first: str
    last: str | None
    flag: str


NEUTRAL: dict[str, tuple[Spelling, ...]] = {
    "ngram_match_depth": (
        Spelling("0.5.3", "0.5.9", "speculative_ngram_max_match_window_size"),
        Spelling("0.5.10", None, "speculative_ngram_max_trie_depth"),
    ),
    "decode_graph_max_batch": (
        Spelling("0.5.2", "0.5.13", "cuda_graph_max_bs"),
        Spelling("0.5.14", None, "cuda_graph_max_bs_decode"),
    ),
}
"""Name of ours to the flag of SGLang, by version."""


def spelled(name: str, version: str) -> str:
    """Return the flag that a name stands for in a version: itself, unless it is neutral."""
    for spelling in NEUTRAL.get(name, ()):
        if within(version, spelling.first, spelling.last):
            return spelling.flag
    return name


SUCCESSORS: dict[str, str] = {
    "speculative_ngram_branch_length": "speculative_ngram_max_trie_depth",
    "speculative_ngram_min_match_window_size": "speculative_ngram_max_trie_depth",
}
"""Flags that are gone to those that took their place, beside the neutral names and the aliases."""


def relatives(flag: str) -> tuple[str, ...]:
    """Return the other spellings of the knob of a flag."""
    families = [{s.flag for s in spellings} for spellings in NEUTRAL.values()]
    families += [{old, new} for old, new in SUCCESSORS.items()]
    return tuple(
        sorted({name for family in families if flag in family for name in family - {flag}})
    )


def neutral_name(flag: str) -> str:
    """Return the name of ours for the knob of a flag; empty where it never changed its name."""
    return next((n for n, table in NEUTRAL.items() if flag in {s.flag for s in table}), "")
