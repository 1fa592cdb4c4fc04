"""One configuration as a version of SGLang reads it: by its own names, with its defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.machine import Interconnect, Machine
from infra.sglang.flags import FLAGS, spelled, within
from sweeps.values import Value

NGRAM_DRAFT_TOKENS = 12
"""What NGRAM verifies when nothing is said."""
EAGLE_FAMILY = ("EAGLE", "EAGLE3")
FORCED_PAGES: Mapping[str, tuple[int, ...]] = {
    "flashmla": (64,),
    "cutlass_mla": (128,),
    "trtllm_mla": (64, 32),
    "trtllm_mha": (64, 32, 16),
    "fa4": (128,),
}
"""Page sizes that an attention backend can have; the first is what any other becomes."""


def page_tokens(asked: int, attention_backend: str) -> int:
    """Return the page size that a backend makes of the one that is asked for."""
    possible = FORCED_PAGES.get(attention_backend)
    return asked if possible is None or asked in possible else possible[0]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of one start. Of a machine that nobody described, nothing is concluded."""

    settings: Mapping[str, Value]
    version: str
    machine: Machine | None = None

    @classmethod
    def of(
        cls, settings: Mapping[str, Value], version: str, machine: Machine | None = None
    ) -> "Configuration":
        """Spell neutral names for a version."""
        return cls({spelled(n, version): v for n, v in settings.items()}, version, machine)

    def given(self, name: str) -> Value:
        """Return what is said; None where nothing is."""
        return self.settings.get(name)

    def value(self, name: str) -> Value:
        """Return what is said, or the version's default. Variables have none."""
        said = self.settings.get(name)
        flag = FLAGS.get(name)
        return flag.default_in(self.version) if said is None and flag is not None else said

    def whole(self, name: str, default: int = 0) -> int:
        """Return a whole number; the default where the value is none, or text that is no number."""
        value = self.value(name)
        if isinstance(value, str):
            return int(value) if value.lstrip("-").isdigit() else default
        return int(value) if isinstance(value, int | float) else default

    def text(self, name: str) -> str:
        """Return a value as it is written; empty where it is unset."""
        value = self.value(name)
        return "" if value is None else str(value)

    def on(self, name: str) -> bool:
        """Tell whether a switch or a variable such as NCCL_P2P_DISABLE is on."""
        return self.value(name) is True or self.text(name) in ("1", "true", "True", "TRUE")

    @property
    def algorithm(self) -> str:
        """The speculative algorithm; empty for plain decode."""
        named = self.text("speculative_algorithm")
        return "EAGLE" if named == "NEXTN" else named

    @property
    def ranks(self) -> int:
        """Processes with a GPU each."""
        return self.whole("tp_size", 1) * self.whole("pp_size", 1)

    @property
    def draft_tokens(self) -> int:
        """Tokens of a draft tree, the root included, as NGRAM completes them."""
        window = self.whole("speculative_ngram_max_match_window_size", NGRAM_DRAFT_TOKENS)
        old = within(self.version, "0", "0.5.9")
        return self.whole("speculative_num_draft_tokens", window if old else NGRAM_DRAFT_TOKENS)

    @property
    def trie_depth(self) -> int:
        """Tokens of the longest string in the n-gram trie."""
        old = within(self.version, "0", "0.5.9")
        return self.whole(
            "speculative_ngram_branch_length" if old else "speculative_ngram_max_trie_depth"
        )

    @property
    def page_tokens(self) -> int:
        """Tokens of a page of the KV cache, as the attention backend has them."""
        return page_tokens(self.whole("page_size", 1), self.text("attention_backend"))

    @property
    def attends_in_parallel(self) -> bool:
        """Tell whether attention is data-parallel."""
        return self.on("enable_dp_attention") or self.whole("attn_dp_size", 1) > 1

    @property
    def interconnect(self) -> Interconnect:
        """What joins the GPUs."""
        return self.machine.interconnect if self.machine else Interconnect.UNKNOWN

    @property
    def on_cuda(self) -> bool:
        """Tell whether the server runs on NVIDIA GPUs, as far as it is said."""
        return self.text("device").startswith("cuda") or self.given("device") is None

    def since(self, first: str) -> bool:
        """Tell whether the version is this one or a later one."""
        return within(self.version, first)
