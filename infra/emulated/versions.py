"""What changed from version to version of SGLang in how a server answers, logs and defaults.

Each table maps the first version with a manner to that manner. Read in the published wheels 0.5.2
to 0.5.23. What clients depend on is in `infra.sglang.protocol`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from infra.sglang.flags import version_key
from infra.sglang.protocol import Feature, has, has_route

_T = TypeVar("_T")


class RateFormula(StrEnum):
    """What the decode line calls accept rate."""

    NONE = "none"
    PER_DRAFT_STEP = "per draft step"
    """Committed tokens over verifies x num_steps; without num_steps the accept length itself."""
    PER_NODE = "per node"
    """Committed tokens over verifies x draft tokens."""
    CORRECT_DRAFTS = "correct drafts"
    """Matched drafts over proposed drafts."""


class Figure(StrEnum):
    """An accept figure of one request, under whichever key a version sends it."""

    RATE = "rate"
    LENGTH = "length"
    STEP_RATE = "step rate"
    """Matched drafts over verifies x num_steps; 0 without num_steps."""
    STEP_LENGTH = "step length"
    """Accept length, but 0 without num_steps."""
    CORRECT = "correct"
    PROPOSED = "proposed"
    VERIFIES = "verifies"
    HISTOGRAM = "histogram"


class MetaField(StrEnum):
    """A field of `meta_info` that does not need speculation."""

    ID = "id"
    FINISH_REASON = "finish_reason"
    PROMPT_TOKENS = "prompt_tokens"
    WEIGHT_VERSION = "weight_version"
    TOTAL_RETRACTIONS = "total_retractions"
    NUM_RETRACTIONS = "num_retractions"
    REASONING_TOKENS = "reasoning_tokens"
    COMPLETION_TOKENS = "completion_tokens"
    CACHED_TOKENS = "cached_tokens"
    WEIGHT_VERSIONS = "weight_versions"
    """Only when the request ends."""
    CACHED_TOKENS_DETAILS = "cached_tokens_details"
    DP_RANK = "dp_rank"


_FIRST_FIELDS = (
    MetaField.ID,
    MetaField.FINISH_REASON,
    MetaField.PROMPT_TOKENS,
    MetaField.WEIGHT_VERSION,
)
_COUNTS = (MetaField.COMPLETION_TOKENS, MetaField.CACHED_TOKENS)
_META: Mapping[str, tuple[MetaField, ...]] = {
    "0.5.2": (*_FIRST_FIELDS, *_COUNTS),
    "0.5.5": (*_FIRST_FIELDS, MetaField.TOTAL_RETRACTIONS, *_COUNTS),
    "0.5.9": (
        *_FIRST_FIELDS,
        MetaField.TOTAL_RETRACTIONS,
        *_COUNTS,
        MetaField.CACHED_TOKENS_DETAILS,
    ),
    "0.5.11": (
        *_FIRST_FIELDS,
        MetaField.TOTAL_RETRACTIONS,
        MetaField.REASONING_TOKENS,
        *_COUNTS,
        MetaField.CACHED_TOKENS_DETAILS,
        MetaField.DP_RANK,
    ),
    "0.5.12": (
        *_FIRST_FIELDS,
        MetaField.NUM_RETRACTIONS,
        MetaField.REASONING_TOKENS,
        *_COUNTS,
        MetaField.CACHED_TOKENS_DETAILS,
        MetaField.DP_RANK,
    ),
    "0.5.20": (
        *_FIRST_FIELDS,
        MetaField.NUM_RETRACTIONS,
        MetaField.REASONING_TOKENS,
        *_COUNTS,
        MetaField.WEIGHT_VERSIONS,
        MetaField.CACHED_TOKENS_DETAILS,
        MetaField.DP_RANK,
    ),
}

Keys = tuple[tuple[str, Figure], ...]
_RATES: Keys = (("spec_accept_rate", Figure.RATE), ("spec_accept_length", Figure.LENGTH))
_VERIFIES: Keys = (("spec_verify_ct", Figure.VERIFIES),)
_OLD_COUNTS: Keys = (
    ("spec_accept_token_num", Figure.CORRECT),
    ("spec_draft_token_num", Figure.PROPOSED),
)
_ACCEPTED: Keys = (
    ("spec_accepted_drafts", Figure.CORRECT),
    ("spec_proposed_drafts", Figure.PROPOSED),
)
_CORRECT: Keys = (
    ("spec_num_correct_drafts", Figure.CORRECT),
    ("spec_num_proposed_drafts", Figure.PROPOSED),
)
_OLD_HISTOGRAM: Keys = (("spec_accept_histogram", Figure.HISTOGRAM),)
_HISTOGRAM: Keys = (("spec_correct_drafts_histogram", Figure.HISTOGRAM),)
_SPECULATION: Mapping[str, Keys] = {
    "0.5.2": _VERIFIES,
    "0.5.4": (
        ("spec_accept_rate", Figure.STEP_RATE),
        ("spec_accept_length", Figure.STEP_LENGTH),
        *_VERIFIES,
    ),
    "0.5.6": (*_RATES, *_OLD_COUNTS, *_VERIFIES),
    "0.5.9": (*_RATES, *_OLD_COUNTS, *_VERIFIES, *_OLD_HISTOGRAM),
    "0.5.11": (*_RATES, *_ACCEPTED, *_VERIFIES, *_OLD_HISTOGRAM),
    "0.5.12": (*_RATES, *_CORRECT, *_VERIFIES, *_ACCEPTED, *_HISTOGRAM, *_OLD_HISTOGRAM),
    "0.5.21": (*_RATES, *_CORRECT, *_VERIFIES, *_HISTOGRAM),
}


class StreamForm(StrEnum):
    """What a chunk of `/generate` repeats."""

    CUMULATIVE = "cumulative"
    DELTA_IDS = "delta ids"
    """The text is cumulative all the same."""
    DELTA = "delta"


METRICS: Mapping[str, str] = {
    "gen_throughput": "0.5.2",
    "num_running_reqs": "0.5.2",
    "num_queue_reqs": "0.5.2",
    "num_used_tokens": "0.5.2",
    "token_usage": "0.5.2",
    "cache_hit_rate": "0.5.2",
    "utilization": "0.5.2",
    "spec_accept_length": "0.5.2",
    "num_retracted_reqs": "0.5.2",
    "prompt_tokens_total": "0.5.2",
    "generation_tokens_total": "0.5.2",
    "cached_tokens_total": "0.5.2",
    "num_requests_total": "0.5.2",
    "num_aborted_requests_total": "0.5.2",
    "time_to_first_token_seconds": "0.5.2",
    "inter_token_latency_seconds": "0.5.2",
    "e2e_request_latency_seconds": "0.5.2",
    "queue_time_seconds": "0.5.2",
    "spec_accept_rate": "0.5.4",
    "is_cuda_graph": "0.5.4",
    "max_total_num_tokens": "0.5.7",
    "cuda_graph_passes_total": "0.5.7",
    "num_retracted_requests_total": "0.5.7",
    "realtime_tokens_total": "0.5.7",
    "spec_num_steps": "0.5.13",
    "spec_num_draft_tokens": "0.5.13",
    "spec_verify_calls_total": "0.5.13",
    "spec_cap_length": "0.5.16",
    "spec_block_accept_length": "0.5.16",
    "startup_cuda_graph_time_seconds": "0.5.17",
    "request_time_per_output_token_seconds": "0.5.22",
}
"""Metric, without its prefix, to the first version that exports it."""


@dataclass(frozen=True, slots=True)
class EagleDefaults:
    """What EAGLE drafts when nothing is said: for a model that is neither Llama nor DeepSeek."""

    num_steps: int
    topk: int
    draft_tokens: int


@dataclass(frozen=True, slots=True)
class Manners:
    """The manners of one version."""

    version: str
    meta_fields: tuple[MetaField, ...]
    speculation_keys: Keys
    figures_without_verify: bool
    """A finished request shows accept figures even if no verify ran."""
    latency_first: bool
    """`e2e_latency` comes before the accept figures."""
    sent_at: bool
    """The first chunk says when it was sent."""
    rate_formula: RateFormula
    decode_head: str
    """`{pass_number}` stands for the number of the forward."""
    decode_tail: str
    prefill_head: str
    prefill_pending: bool
    """The prefill line names pending tokens, and the graph before the rate."""
    prefill_rate: bool
    chunks_repeat: StreamForm
    chunks_repeat_on_request: StreamForm
    """With `--stream-output`, later `--incremental-streaming-output`."""
    state_update_admits: bool
    """A refused `/set_internal_state` says so."""
    ngram_overlaps: bool
    ngram_derives_steps: bool
    ngram_devices: tuple[str, ...]
    ngram_prob: bool
    eagle_defaults: EagleDefaults
    eagle_tree_backends: tuple[str, ...]
    """Attention backends that let EAGLE have a tree on pages of more than one token."""
    free_algorithm: bool
    """A wrong algorithm passes the parser and fails later."""
    keeps_collective_environment: bool
    """A user's NCCL_CUMEM_ENABLE and NCCL_NVLS_ENABLE survive."""
    max_connections: str
    module_loading: bool
    pins_channels: bool
    """Deterministic inference also fixes the number of NCCL channels."""
    pcie_ipc: bool

    def has_route(self, path: str) -> bool:
        """Tell whether this version serves a path; paths that are in no table always exist."""
        return has_route(path, self.version)

    def has(self, feature: Feature) -> bool:
        """Tell whether this version has a feature of the protocol."""
        return has(feature, self.version)

    def has_metric(self, name: str) -> bool:
        """Tell whether this version exports a metric."""
        return self.since(METRICS[name])

    def since(self, first: str) -> bool:
        """Tell whether this is a version or a later one."""
        return version_key(self.version) >= version_key(first)


@lru_cache(maxsize=64)
def manners(version: str) -> Manners:
    """Return the manners of a version."""
    at = version_key(version)

    def pick(table: Mapping[str, _T]) -> _T:
        first = max((f for f in table if version_key(f) <= at), key=version_key, default="")
        return table[first or min(table, key=version_key)]

    def since(first: str) -> bool:
        return at >= version_key(first)

    return Manners(
        version=version,
        meta_fields=pick(_META),
        speculation_keys=pick(_SPECULATION),
        figures_without_verify=not since("0.5.7"),
        latency_first=since("0.5.10"),
        sent_at=since("0.5.6"),
        rate_formula=pick(
            {
                "0.5.2": RateFormula.NONE,
                "0.5.4": RateFormula.PER_DRAFT_STEP,
                "0.5.6": RateFormula.PER_NODE,
                "0.5.11": RateFormula.CORRECT_DRAFTS,
            }
        ),
        decode_head=pick(
            {
                "0.5.2": "Decode batch. ",
                "0.5.4": "Decode batch [{pass_number}], ",
                "0.5.5": "Decode batch, ",
            }
        ),
        decode_tail=pick({"0.5.2": ",", "0.5.9": ""}),
        prefill_head=pick(
            {
                "0.5.2": "Prefill batch. ",
                "0.5.4": "Prefill batch [{pass_number}], ",
                "0.5.5": "Prefill batch, ",
            }
        ),
        prefill_pending=since("0.5.10"),
        prefill_rate=since("0.5.8"),
        chunks_repeat=pick({"0.5.2": StreamForm.DELTA_IDS, "0.5.6": StreamForm.CUMULATIVE}),
        chunks_repeat_on_request=pick({"0.5.2": StreamForm.DELTA_IDS, "0.5.10": StreamForm.DELTA}),
        state_update_admits=since("0.5.15"),
        ngram_overlaps=since("0.5.14"),
        ngram_derives_steps=since("0.5.14"),
        ngram_devices=pick(
            {
                "0.5.2": ("cuda",),
                "0.5.16": ("cuda", "cpu"),
                "0.5.21": ("cuda", "cpu", "xpu"),
            }
        ),
        ngram_prob=since("0.5.10"),
        eagle_defaults=pick({"0.5.2": EagleDefaults(5, 4, 8), "0.5.8": EagleDefaults(3, 1, 4)}),
        eagle_tree_backends=pick(
            {
                "0.5.2": ("flashinfer",),
                "0.5.6": ("flashinfer", "fa3"),
                "0.5.13": ("flashinfer", "fa3", "triton"),
            }
        ),
        free_algorithm=since("0.5.12"),
        keeps_collective_environment=since("0.5.5"),
        max_connections=pick({"0.5.2": "4", "0.5.5": "8"}),
        module_loading=not since("0.5.19"),
        pins_channels=since("0.5.18"),
        pcie_ipc=since("0.5.21"),
    )
