"""Book-keeping of KV-cache slots around a speculative step (names and order: SGLang 0.5.23)."""

import ctypes


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, end, out, pool_len):
    """Gather each request's slots [start, end) into `out`, one request after the other."""
    offset = 0
    for request, first, last in _ranges(req_pool_indices, start, end):
        count = last - first
        out[offset : offset + count] = req_to_token[request, first:last].to(out.dtype)
        offset += count


def assign_req_to_token_pool_cpu(
    req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len
):
    """Write `out_cache_loc` into each request's slots [start, end)."""
    offset = 0
    for request, first, last in _ranges(req_pool_indices, start, end):
        count = last - first
        slots = out_cache_loc[offset : offset + count]
        req_to_token[request, first:last] = slots.to(req_to_token.dtype)
        offset += count


def _ranges(req_pool_indices, start, end):
    return zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=False)


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    """Copy the last accepted token of each request, rows being `accept_stride` apart."""
    for row, length in enumerate(accept_lens.tolist()):
        bonus_tokens[row] = accept_tokens[accept_stride * row + length - 1]


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    """Pack the slots of the accepted tokens at the front; -1 marks the rejected."""
    accepted = accept_index[accept_index > -1]
    accept_out_cache_loc[: accepted.numel()] = out_cache_loc[accepted.long()]


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt_loc, src_loc):
    """Copy cache rows `src_loc` to `tgt_loc` in every layer, given by address and row bytes.

    All sources are read before any target is written: the two sets may overlap.
    """
    sources, targets = src_loc.tolist(), tgt_loc.tolist()
    for address, row_bytes in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(address + slot * row_bytes, row_bytes) for slot in sources]
        for slot, row in zip(targets, rows, strict=True):
            ctypes.memmove(address + slot * row_bytes, row, row_bytes)
