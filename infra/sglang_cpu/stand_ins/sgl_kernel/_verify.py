"""Greedy verification of draft trees."""

from ._tree import greedy_path


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    """Accept the path of drafts that greedy decoding takes, in place (spelling is SGLang's).

    `accept_index` gets the flat positions of the root and the accepted drafts, `accept_token_num`
    their number without the root, `predicts` the target's token at each position on the path.
    """
    max_accept = accept_index.shape[1]
    trees = zip(
        candidates.tolist(),
        retrive_index.tolist(),
        retrive_next_token.tolist(),
        retrive_next_sibling.tolist(),
        target_predict.tolist(),
        strict=True,
    )
    for row, (drafts, flat, first_child, sibling, target) in enumerate(trees):
        path = greedy_path(drafts, first_child, sibling, target, max_accept)
        for order, node in enumerate(path):
            predicts[flat[node]] = target[node]
            accept_index[row, order] = flat[node]
        accept_token_num[row] = len(path) - 1
