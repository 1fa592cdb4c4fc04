"""Stands in for the compiled `sgl_kernel` package, in plain torch, on a CPU without AMX.

It carries what a small dense model needs with the `intel_amx` attention backend and NGRAM
speculation; any other name resolves to a function that raises when it is called.

Two absences are load-bearing for SGLang 0.5.23. Submodules other than `speculative` do not exist,
so that its `except ImportError` fallbacks apply. The op `convert_weight_packed` is not registered,
because its presence is read as "this is an AMX build" (srt/utils/common.py).
"""

from collections.abc import Callable
from typing import NoReturn

from . import _attention as _attention  # registers the torch.ops.sgl_kernel attention ops
from ._decode_cache import (
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
)
from ._verify import verify_tree_greedy_cpu

__all__ = [
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "verify_tree_greedy_cpu",
]
__version__ = "0.0.0+stand.in"

# `from sgl_kernel import NAME` of these must fail as for a missing module, not yield a function.
_ABSENT_SUBMODULES = {
    "allreduce",
    "cutlass_moe",
    "debug_utils",
    "elementwise",
    "flash_attn",
    "flash_mla",
    "gemm",
    "grammar",
    "kvcacheio",
    "load_utils",
    "mamba",
    "memory",
    "moe",
    "quantization",
    "sampling",
    "scalar_type",
    "sparse_flash_attn",
    "speculative",
    "testing",
    "top_k",
    "utils",
    "version",
}


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__") or name in _ABSENT_SUBMODULES:
        raise AttributeError(name)

    def absent_kernel(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"the sgl_kernel stand-in has no {name}")

    absent_kernel.__name__ = absent_kernel.__qualname__ = name
    return absent_kernel
