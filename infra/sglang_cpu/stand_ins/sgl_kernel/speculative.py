"""The tree links of an NGRAM draft, recovered from its attention mask."""

import torch

from ._tree import first_children, next_siblings, parents_and_depths


def reconstruct_indices_from_tree_mask(
    tree_mask,
    verified_seq_len,
    positions,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    batch_size,
    draft_token_num,
):
    """Fill positions, flat indices, first children and next siblings in place, per request."""
    count = draft_token_num
    masks = tree_mask.view(batch_size, count, count).bool().tolist()
    for row, sees in enumerate(masks):
        here = slice(row * count, (row + 1) * count)
        parents, depths = parents_and_depths(sees)
        first = int(verified_seq_len[row])
        _fill(positions[here], [first + depth for depth in depths])
        _fill(retrive_index[row], range(here.start, here.stop))
        _fill(retrive_next_token[row], first_children(parents))
        _fill(retrive_next_sibling[row], next_siblings(parents))


def _fill(target, values):
    target.copy_(torch.tensor(list(values), dtype=target.dtype))
