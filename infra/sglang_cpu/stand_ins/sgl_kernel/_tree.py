"""A draft tree as lists: the root is node 0, a parent comes before its children."""

_NONE = -1


def parents_and_depths(sees):
    """Read the tree off its attention mask: a node sees its ancestors and itself."""
    ancestors = [[j for j in range(node) if row[j]] for node, row in enumerate(sees)]
    parents = [found[-1] if found else _NONE for found in ancestors]
    return parents, [len(found) for found in ancestors]


def first_children(parents):
    """Return each node's first child, or -1."""
    return [_next_with_parent(parents, node, after=node) for node in range(len(parents))]


def next_siblings(parents):
    """Return each node's next sibling, or -1."""
    return [
        _NONE if parent == _NONE else _next_with_parent(parents, parent, after=node)
        for node, parent in enumerate(parents)
    ]


def _next_with_parent(parents, parent, *, after):
    """The first node past `after` that hangs on `parent`."""
    later = range(after + 1, len(parents))
    return next((node for node in later if parents[node] == parent), _NONE)


def greedy_path(drafts, first_child, sibling, target, max_nodes):
    """Walk from the root to the child that holds the target's token, as long as there is one."""
    path = [0]
    while len(path) < max_nodes:
        node = first_child[path[-1]]
        while node != _NONE and drafts[node] != target[path[-1]]:
            node = sibling[node]
        if node == _NONE:
            break
        path.append(node)
    return path
