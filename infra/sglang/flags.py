"""The flag table of SGLang by version: which settings exist, of which type, under which name.

Rows are read from the argument definitions of the published wheels 0.5.2 to 0.5.23.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.axes import is_environment
from sweeps.problems import Problem, nearest
from sweeps.values import Value, show

NEWEST = "0.5.23"

_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")
_P2P_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting. `kind` bool is a flag without a value; `last` None: it is still there."""

    kind: type
    default: Value = None
    choices: tuple[str, ...] = ()
    first: str = "0.5.2"
    last: str | None = None
    low: float | None = None

    def exists_in(self, version: str) -> bool:
        """Tell whether a version knows the flag."""
        at = version_key(version)
        return version_key(self.first) <= at and (self.last is None or at <= version_key(self.last))


FLAGS: dict[str, Flag] = {
    # speculation
    "speculative_algorithm": Flag(str, choices=_ALGORITHMS),
    "speculative_draft_model_path": Flag(str),
    "speculative_draft_model_revision": Flag(str),
    "speculative_num_steps": Flag(int, low=0),
    "speculative_eagle_topk": Flag(int, low=1),
    "speculative_num_draft_tokens": Flag(int, low=1),
    "speculative_accept_threshold_single": Flag(float, 1.0, low=0),
    "speculative_accept_threshold_acc": Flag(float, 1.0, low=0),
    "speculative_token_map": Flag(str),
    "speculative_attention_mode": Flag(str, "prefill", ("prefill", "decode")),
    "speculative_draft_attention_backend": Flag(str, first="0.5.7"),
    "speculative_adaptive": Flag(bool, False, first="0.5.11"),
    "speculative_ngram_min_match_window_size": Flag(int, 1, first="0.5.3", last="0.5.9", low=1),
    "speculative_ngram_max_match_window_size": Flag(int, 12, first="0.5.3", last="0.5.9", low=1),
    "speculative_ngram_branch_length": Flag(int, 18, first="0.5.3", last="0.5.9", low=2),
    "speculative_ngram_max_trie_depth": Flag(int, 18, first="0.5.10", low=2),
    "speculative_ngram_min_bfs_breadth": Flag(int, 1, first="0.5.3", low=1),
    "speculative_ngram_max_bfs_breadth": Flag(int, 10, first="0.5.3", low=1),
    "speculative_ngram_match_type": Flag(str, "BFS", ("BFS", "PROB"), first="0.5.3"),
    "speculative_ngram_capacity": Flag(int, 10_000_000, first="0.5.3", low=1),
    "speculative_ngram_external_corpus_path": Flag(str, first="0.5.11"),
    "speculative_ngram_external_sam_budget": Flag(int, 0, first="0.5.11", low=0),
    # communication and layout
    "disable_custom_all_reduce": Flag(bool, False),
    "enable_mscclpp": Flag(bool, False),
    "enable_nccl_nvls": Flag(bool, False),
    "enable_symm_mem": Flag(bool, False),
    "enable_torch_symm_mem": Flag(bool, False, first="0.5.3"),
    "enable_p2p_check": Flag(bool, False),
    "enforce_disable_flashinfer_allreduce_fusion": Flag(bool, False, first="0.5.10"),
    "tp_size": Flag(int, 1, low=1),
    "dp_size": Flag(int, 1, low=1),
    "ep_size": Flag(int, 1, low=1),
    "nccl_port": Flag(int, low=1),
    # memory, scheduling, graphs
    "mem_fraction_static": Flag(float, low=0),
    "max_running_requests": Flag(int, low=1),
    "max_total_tokens": Flag(int, low=1),
    "chunked_prefill_size": Flag(int),
    "max_prefill_tokens": Flag(int, 16384, low=1),
    "page_size": Flag(int, low=1),
    "schedule_policy": Flag(str, "fcfs"),
    "schedule_conservativeness": Flag(float, 1.0, low=0),
    "disable_radix_cache": Flag(bool, False),
    "disable_overlap_schedule": Flag(bool, False),
    "num_continuous_decode_steps": Flag(int, 1, low=1),
    "stream_interval": Flag(int, 1, low=1),
    "cuda_graph_max_bs": Flag(int, last="0.5.13", low=1),
    "cuda_graph_max_bs_decode": Flag(int, first="0.5.14", low=1),
    "disable_cuda_graph": Flag(bool, False),
    # model, kernels, serving
    "model_path": Flag(str),
    "tokenizer_path": Flag(str),
    "served_model_name": Flag(str),
    "context_length": Flag(int, low=1),
    "dtype": Flag(str, "auto"),
    "quantization": Flag(str),
    "kv_cache_dtype": Flag(str, "auto"),
    "load_format": Flag(str, "auto"),
    "random_seed": Flag(int),
    "trust_remote_code": Flag(bool, False),
    "device": Flag(str),
    "attention_backend": Flag(str),
    "prefill_attention_backend": Flag(str),
    "decode_attention_backend": Flag(str),
    "sampling_backend": Flag(str),
    "grammar_backend": Flag(str),
    "host": Flag(str, "127.0.0.1"),
    "port": Flag(int, 30000, low=1),
    "skip_server_warmup": Flag(bool, False),
    "watchdog_timeout": Flag(float, 300.0, low=0),
    "decode_log_interval": Flag(int, 40, low=1),
    "enable_metrics": Flag(bool, False),
    "log_level": Flag(str, "info"),
    "reasoning_parser": Flag(str),
    "tool_call_parser": Flag(str),
}
"""Argument name, as SGLang's own `ServerArgs` spells it, to what is known of it."""

ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "NCCL_PROTO": ("LL", "Simple", "LL,Simple", "^LL128"),
    "NCCL_ALGO": ("Ring", "Tree"),
    "NCCL_P2P_LEVEL": _P2P_LEVELS,
    "NCCL_P2P_DISABLE": ("0", "1"),
    "NCCL_SHM_DISABLE": ("0", "1"),
    "NCCL_MIN_NCHANNELS": (),
    "NCCL_MAX_NCHANNELS": (),
    "NCCL_BUFFSIZE": (),
    "NCCL_NTHREADS": ("64", "96", "128", "192", "256", "384", "512"),
    "NCCL_CUMEM_ENABLE": ("0", "1"),
    "NCCL_NVLS_ENABLE": ("0", "1", "2"),
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": ("0", "1"),
    "SGLANG_PCIE_IPC_MAX_NUMEL": (),
    "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": ("0", "1"),
    "SGLANG_NCCL_SO_PATH": (),
    "SGLANG_USE_CPU_ENGINE": ("0", "1"),
    "CUDA_VISIBLE_DEVICES": (),
    "OMP_NUM_THREADS": (),
    "HF_HUB_OFFLINE": ("0", "1"),
    "TRANSFORMERS_OFFLINE": ("0", "1"),
}
"""Variable to the values worth trying on one PCIe host; empty where any value is.

LL128 is left out: NVIDIA's documentation warns of wrong data when it is forced on PCIe.
"""


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
"""Names of ours for a knob that SGLang renamed."""


def version_key(version: str) -> tuple[int, ...]:
    """Order versions: `0.5.6.post2` comes after `0.5.6` and before `0.5.7`."""
    parts = version.replace("post", "").split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def spelled(name: str, version: str) -> str:
    """Return the flag that a name stands for in a version: itself, unless it is neutral."""
    at = version_key(version)
    for spelling in NEUTRAL.get(name, ()):
        last = spelling.last
        if version_key(spelling.first) <= at and (last is None or at <= version_key(last)):
            return spelling.flag
    return name


def setting_problems(settings: Mapping[str, tuple[Value, ...]], version: str) -> list[Problem]:
    """Check names and values against a version; `settings` holds every value that may be used."""
    found = []
    for name, values in settings.items():
        if is_environment(name):
            found += _environment_problems(name, values)
        else:
            found += _flag_problems(name, spelled(name, version), values, version)
    return found


def _environment_problems(name: str, values: tuple[Value, ...]) -> list[Problem]:
    if name not in ENVIRONMENT:
        mend = nearest(name, ENVIRONMENT) or f"Known are {', '.join(ENVIRONMENT)}."
        return [Problem(name, _list(values), "no such environment variable is known", mend)]
    allowed = ENVIRONMENT[name]
    return [
        Problem(name, show(v), "not a value of this variable", f"Use {', '.join(allowed)} or None.")
        for v in values
        if v is not None and allowed and str(v) not in allowed
    ]


def _flag_problems(
    name: str, flag_name: str, values: tuple[Value, ...], version: str
) -> list[Problem]:
    flag = FLAGS.get(flag_name)
    if flag is None:
        mend = nearest(name, [*FLAGS, *NEUTRAL]) or "If SGLang has it, add it to FLAGS."
        return [Problem(name, _list(values), "SGLang has no such argument", mend)]
    if not flag.exists_in(version):
        return [Problem(name, _list(values), f"SGLang {version} does not know it", _span(flag))]
    return [
        Problem(name, show(value), why, "Change the value.")
        for value in values
        if (why := _misfit(flag, value))
    ]


def _misfit(flag: Flag, value: Value) -> str:
    if value is None:
        return ""
    wanted = (int, float) if flag.kind is float else flag.kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and flag.kind is not bool):
        return f"a value of type {flag.kind.__name__} is needed"
    if flag.choices and value not in flag.choices:
        return f"it must be one of {', '.join(flag.choices)}"
    if flag.low is not None and isinstance(value, int | float) and value < flag.low:
        return f"it must be at least {flag.low:g}"
    return ""


def _span(flag: Flag) -> str:
    if flag.last is None:
        return f"It came with {flag.first}."
    return f"It exists from {flag.first} to {flag.last}."


def _list(values: tuple[Value, ...]) -> str:
    shown = ", ".join(show(value) for value in values[:4])
    return shown + (", …" if len(values) > 4 else "")
