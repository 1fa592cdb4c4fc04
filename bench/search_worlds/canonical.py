"""Configurations that a server cannot tell apart, by SGLang's and NCCL's own rules."""

from sweeps.config import Config
from sweeps.space import Space

IPC = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"
_CUSTOM = "disable_custom_all_reduce"
_BREADTH = "speculative_ngram_max_bfs_breadth"
_MATCH = "speculative_ngram_match_type"


class Canonicaliser:
    """Sets what has no effect to its default, on more than two PCIe GPUs at one stream."""

    def __init__(self, space: Space) -> None:
        self._defaults = {axis.name: axis.default for axis in space.axes}
        self._known: dict[Config, Config] = {}

    def __call__(self, config: Config) -> Config:
        """Return the configuration that stands for all that act alike."""
        found = self._known.get(config)
        if found is None:
            found = self._known[config] = self._reduced(config)
        return found

    def _reduced(self, config: Config) -> Config:
        values = dict(config)
        if _CUSTOM in values:
            values[_CUSTOM] = self._defaults[_CUSTOM]
        if values.get(IPC) == "1":
            values |= {n: self._defaults[n] for n in values if n.startswith("NCCL_")}
        if values.get(_BREADTH) == 2 and values.get(_MATCH, "BFS") == "BFS":
            values[_BREADTH] = 1
        return Config.of(values)
