"""How the garbage collector is to be set where an emulated engine runs."""

import gc


def calm_collector() -> None:
    """Keep full collections away: a large trie holds no cycles, and each would stop the engine."""
    gc.freeze()
    gc.set_threshold(50_000, 1_000, 1_000_000)
