"""Decode and extend attention over the paged KV cache, registered under `torch.ops.sgl_kernel`.

The schemas and argument names are those by which SGLang 0.5.23 calls the ops
(srt/layers/attention/intel_amx_backend.py).
"""

import torch
import torch.nn.functional as functional

_COMMON_TAIL = (
    "float sm_scale, float logit_cap, bool is_cross_attn=False, int sliding_window_size=0, "
    "Tensor? encoder_lens=None, Tensor? sinks=None"
)
_DECODE_SCHEMA = (
    "decode_attention_cpu(Tensor query, Tensor k_buffer, Tensor v_buffer, float k_scale, "
    "float v_scale, Tensor(a!) output, Tensor? key, Tensor? value, Tensor loc, "
    "Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    f"{_COMMON_TAIL}) -> ()"
)
_EXTEND_SCHEMA = (
    "extend_attention_cpu(Tensor q_extend, Tensor? k_extend, Tensor? v_extend, "
    "Tensor(a!) o_extend, Tensor k_buffer, Tensor v_buffer, float k_scale, float v_scale, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, Tensor extend_seq_lens, "
    f"Tensor extend_start_loc, int max_len_extend, {_COMMON_TAIL}, "
    "Tensor? tree_mask=None, bool is_causal=True) -> ()"
)


def _attend(query, k_buffer, v_buffer, slots, sm_scale, mask):
    """Attend from query rows [tokens, heads, dim] to the cached rows at `slots`."""
    key = k_buffer[slots].movedim(0, 1).unsqueeze(0).to(query.dtype)
    value = v_buffer[slots].movedim(0, 1).unsqueeze(0).to(query.dtype)
    query = query.movedim(0, 1).unsqueeze(0)
    output = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        scale=sm_scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.squeeze(0).movedim(1, 0)


def _refuse_variants(logit_cap, is_cross_attn, encoder_lens, sinks):
    if logit_cap or is_cross_attn or encoder_lens is not None or sinks is not None:
        raise NotImplementedError("the sgl_kernel stand-in knows only plain self-attention")


def _extend_mask(context_tokens, new_tokens, tree_mask, *, is_causal):
    """Which of the `context_tokens` (whose last are the new ones) each new token may see."""
    mask = torch.ones(new_tokens, context_tokens, dtype=torch.bool)
    if tree_mask is not None:
        mask[:, context_tokens - new_tokens :] = tree_mask.view(new_tokens, new_tokens).bool()
        return mask
    return mask.tril(context_tokens - new_tokens) if is_causal else mask


def _decode_attention(
    query,
    k_buffer,
    v_buffer,
    k_scale,
    v_scale,
    output,
    key,
    value,
    loc,
    attn_logits,
    req_to_token,
    req_pool_indices,
    seq_lens,
    sm_scale,
    logit_cap,
    is_cross_attn=False,
    sliding_window_size=0,
    encoder_lens=None,
    sinks=None,
):
    """Store the new key and value rows at `loc`, then attend for one token per request."""
    _refuse_variants(logit_cap, is_cross_attn, encoder_lens, sinks)
    if key is not None:
        k_buffer[loc] = key.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc] = value.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    requests = zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)
    for row, (request, context_tokens) in enumerate(requests):
        slots = req_to_token[request, :context_tokens].long()
        here = slice(row, row + 1)
        output[here] = _attend(query[here], k_buffer, v_buffer, slots, sm_scale, None)


def _extend_attention(
    q_extend,
    k_extend,
    v_extend,
    o_extend,
    k_buffer,
    v_buffer,
    k_scale,
    v_scale,
    req_to_token,
    req_pool_indices,
    seq_lens,
    extend_seq_lens,
    extend_start_loc,
    max_len_extend,
    sm_scale,
    logit_cap,
    is_cross_attn=False,
    sliding_window_size=0,
    encoder_lens=None,
    sinks=None,
    tree_mask=None,
    is_causal=True,
):
    """Attend for several new tokens per request: prefill, or the draft tokens of a verify.

    `tree_mask` is flat: for each request a square over its draft tokens.
    """
    _refuse_variants(logit_cap, is_cross_attn, encoder_lens, sinks)
    mask_start = 0
    requests = zip(
        req_pool_indices.tolist(),
        seq_lens.tolist(),
        extend_seq_lens.tolist(),
        extend_start_loc.tolist(),
        strict=True,
    )
    for request, context_tokens, new_tokens, start in requests:
        own_mask = None
        if tree_mask is not None:
            own_mask = tree_mask[mask_start : mask_start + new_tokens**2]
            mask_start += new_tokens**2
        mask = _extend_mask(context_tokens, new_tokens, own_mask, is_causal=is_causal)
        slots = req_to_token[request, :context_tokens].long()
        here = slice(start, start + new_tokens)
        o_extend[here] = _attend(q_extend[here], k_buffer, v_buffer, slots, sm_scale, mask)


# The registration lives as long as this object.
_LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")
_LIBRARY.define(_DECODE_SCHEMA)
_LIBRARY.define(_EXTEND_SCHEMA)
_LIBRARY.impl("decode_attention_cpu", _decode_attention, "CPU")
_LIBRARY.impl("extend_attention_cpu", _extend_attention, "CPU")
