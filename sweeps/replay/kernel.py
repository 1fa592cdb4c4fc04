# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False
"""The fast core's loops, compiled by numba: imported by nobody before a replay is asked for.

The text is known beforehand, so that what is left to do while drafting is to keep, below each
numbered string, its followers in order. They are one file: numba does not see that what a
compiled function calls has changed in another.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sweeps.replay.numbering import ABSENT, FIRST, NEXT, NONE, PREVIOUS, TOKEN
from sweeps.replay.streams import Floats, Ints

compiled = njit(cache=True, nogil=True, error_model="numpy")
LISTLESS = ABSENT - 1
"""For previous: inserted, and in no list of siblings."""


class Text(NamedTuple):
    """Numbered text. A stream runs from its start to the next one's."""

    tokens: Ints
    starts: Ints
    roots: Ints
    """The place of each stream's first output token, from which it is served."""
    limits: Ints
    """Behind each stream's last output token; what lies beyond is what the target would write."""
    numbers: Ints
    """The number of each string, by the place of its last token and its length less 1."""
    known: Ints
    """How many lengths are numbered at each place."""
    repeated: Ints
    """How many of them occur twice."""


class Shape(NamedTuple):
    """How is drafted: a `sweeps.drafting.ngram.NgramShape` in numbers."""

    width: int
    depth: int
    breadth: int
    shortest: int
    longest: int
    """0: matches have no window."""
    by_likelihood: bool
    behind: bool
    overlap: bool
    top: int
    least: int
    step: float


class Trie(NamedTuple):
    """What was inserted: the followers of each string in order, and what is counted for that."""

    links: Ints
    counts: Ints
    sizes: Ints
    lasts: Ints
    stops: Ints
    """For each start in the text, where its longest inserted window ends."""


class Draft(NamedTuple):
    """The tree that is being grown, and what waits to grow."""

    tree: Ints
    queue: Ints
    widths: Floats
    heap: Ints
    chances: Floats


class Batch(NamedTuple):
    """The running requests, one in each place."""

    stream: Ints
    root: Ints
    """The place of the last token that was committed."""
    matched: Ints
    """The length of the longest match at `matched_at`."""
    matched_at: Ints
    correct: Ints
    drafted: Ints


@compiled
def _touch(links, parent, node):
    """Put a string in front of its siblings."""
    first = links[parent, FIRST]
    if first == node:
        return
    if links[node, PREVIOUS] != ABSENT:
        previous, after = links[node, PREVIOUS], links[node, NEXT]
        links[previous, NEXT] = after
        if after != NONE:
            links[after, PREVIOUS] = previous
    links[node, PREVIOUS] = NONE
    links[node, NEXT] = first
    if first != NONE:
        links[first, PREVIOUS] = node
    links[parent, FIRST] = node


@compiled
def _is_likelier(trie, one, other):
    if trie.counts[one] == trie.counts[other]:
        return trie.links[one, TOKEN] < trie.links[other, TOKEN]
    return trie.counts[one] > trie.counts[other]


@compiled
def _unlist(trie, parent, node):
    links = trie.links
    previous, after = links[node, PREVIOUS], links[node, NEXT]
    if previous == NONE:
        links[parent, FIRST] = after
    else:
        links[previous, NEXT] = after
    if after == NONE:
        trie.lasts[parent] = previous
    else:
        links[after, PREVIOUS] = previous
    links[node, PREVIOUS] = LISTLESS


@compiled
def _list_after(trie, parent, previous, node):
    links = trie.links
    after = links[parent, FIRST] if previous == NONE else links[previous, NEXT]
    links[node, PREVIOUS], links[node, NEXT] = previous, after
    if previous == NONE:
        links[parent, FIRST] = node
    else:
        links[previous, NEXT] = node
    if after == NONE:
        trie.lasts[parent] = node
    else:
        links[after, PREVIOUS] = node


@compiled
def _count(trie, parent, node, breadth):
    """Count a string once more, and keep the `breadth` likeliest siblings in order.

    Counts only rise, so that one that is not listed comes in by its own rise alone.
    """
    trie.counts[node] += 1
    ahead = trie.links[node, PREVIOUS]
    if ahead <= ABSENT:
        trie.links[node, PREVIOUS] = LISTLESS
        ahead = trie.lasts[parent] if trie.sizes[parent] else NONE
        if trie.sizes[parent] < breadth:
            trie.sizes[parent] += 1
        elif _is_likelier(trie, node, ahead):
            _unlist(trie, parent, ahead)
            ahead = trie.lasts[parent]
        else:
            return
    elif ahead == NONE or _is_likelier(trie, ahead, node):
        return
    else:
        _unlist(trie, parent, node)
    while ahead != NONE and _is_likelier(trie, node, ahead):
        ahead = trie.links[ahead, PREVIOUS]
    _list_after(trie, parent, ahead, node)


@compiled
def _insert(text, shape, trie, stream, root, since):
    """Insert the windows of the tail that ends at `root`; those that end before `since` are known.

    Before 0.5.10 the windows that start last are left out.
    """
    begin = max(text.starts[stream], root - shape.depth + 1)
    skipped = shape.shortest if shape.longest else 0
    for place in range(max(begin, since), root + 1):
        longest = min(text.known[place], place - begin + 1)
        for length in range(max(1, skipped + 1 - (root - place)), longest + 1):
            node = text.numbers[place, length - 1]
            if length == 1:  # a match has a token, so that nobody asks for the root's followers
                trie.links[node, PREVIOUS] = LISTLESS
            elif shape.by_likelihood:
                _count(trie, text.numbers[place - 1, length - 2], node, shape.breadth)
            else:
                _touch(trie.links, text.numbers[place - 1, length - 2], node)
    for start in range(begin, root + 1 - skipped):
        trie.stops[start] = root + 1


@compiled
def _is_known(text, trie, place, length):
    return trie.links[text.numbers[place, length - 1], PREVIOUS] != ABSENT


@compiled
def _match(text, shape, trie, batch, slot):
    """Lead a request's match on to its root; return its length.

    A string that was inserted after it was looked up stays unknown until the request is past it.
    """
    root, at = batch.root[slot], batch.matched_at[slot]
    begin = max(text.starts[batch.stream[slot]], root - shape.depth + 1)
    matched, since = batch.matched[slot], at + 1
    if at < 0 or root - at > root - begin + 1:
        matched, since = 0, begin
    own = batch.drafted[slot] and not shape.behind  # the tail itself was inserted
    for place in range(since, root + 1):
        most = min(matched + 1, shape.depth)
        matched = min(most, text.repeated[place])
        while matched and not _is_known(text, trie, place, matched):
            matched -= 1
        if own:
            matched = max(matched, min(most, place - begin + 1))
    batch.matched[slot], batch.matched_at[slot] = matched, root
    return matched


@compiled
def _draft_at(tree, size, position, token):
    """Find a draft below a position, or make it at the end; return its place."""
    at = tree[position, FIRST]
    while at != NONE:
        if tree[at, TOKEN] == token:
            return at
        at = tree[at, NEXT]
    tree[size, FIRST], tree[size, NEXT] = NONE, tree[position, FIRST]
    tree[size, TOKEN] = token
    tree[position, FIRST] = size
    return size


@compiled
def _grow_by_recency(text, shape, trie, draft, size, anchor, length):
    """Grow breadth first below a matched string; return the size of the tree.

    What waits is a position in the tree, a string and its length. A negative string is one that
    occurs once: -(place + 1), with the place of its last token.
    """
    links, tree, queue, widths = trie.links, draft.tree, draft.queue, draft.widths
    queue[0, 0], queue[0, 1], queue[0, 2] = 0, anchor, length
    widths[0] = (shape.top - length) * shape.step + shape.least
    waiting, taken = 1, 0
    while taken < waiting:
        position, at, length = queue[taken, 0], queue[taken, 1], queue[taken, 2]
        width = widths[taken]
        taken += 1
        follower = links[at, FIRST] if at >= 0 else at - 1
        left = int(width) if width > 1 else 1
        while follower != NONE and left:
            if follower < NONE:
                following = -follower - 1
                if following >= trie.stops[following - length]:
                    break
                token, found, follower = text.tokens[following], -following - 1, NONE
            else:
                token, found, follower = links[follower, TOKEN], follower, links[follower, NEXT]
            after = _draft_at(tree, size, position, token)
            if after == size:
                size += 1
                if size == shape.width:
                    return size
            queue[waiting, 0], queue[waiting, 1], queue[waiting, 2] = after, found, length + 1
            widths[waiting] = width - shape.step
            waiting += 1
            left -= 1
    return size


@compiled
def _move(draft, to, at):
    for field in range(4):
        draft.heap[to, field] = draft.heap[at, field]
    draft.chances[to] = draft.chances[at]


@compiled
def _rise(draft, hole, chance, entry):
    """Put an entry where std::push_heap puts it."""
    while hole > 0:
        parent = (hole - 1) // 2
        if not draft.chances[parent] < chance:
            break
        _move(draft, hole, parent)
        hole = parent
    heap = draft.heap
    heap[hole, 0], heap[hole, 1], heap[hole, 2], heap[hole, 3] = entry
    draft.chances[hole] = chance


@compiled
def _entry(draft, at):
    return draft.heap[at, 0], draft.heap[at, 1], draft.heap[at, 2], draft.heap[at, 3]


@compiled
def _sink(draft, size):
    """Close the gap at the top as std::pop_heap does: it sinks to a leaf, the last fills it."""
    last, chance = _entry(draft, size), draft.chances[size]
    hole, child = 0, 2
    while child < size:
        if draft.chances[child] < draft.chances[child - 1]:
            child -= 1
        _move(draft, hole, child)
        hole, child = child, 2 * child + 2
    if child == size:
        _move(draft, hole, size - 1)
        hole = size - 1
    _rise(draft, hole, chance, last)


@compiled
def _push_followers(text, trie, draft, waiting, position, at, length, chance):
    """Push what follows a string with its chance; return how many entries wait."""
    first = trie.links[at, FIRST] if at >= 0 else at - 1
    if first < NONE:
        following = -first - 1
        if following < trie.stops[following - length]:
            entry = (position, text.tokens[following], np.int32(-following - 1), length + 1)
            _rise(draft, waiting, chance, entry)
            waiting += 1
        return waiting
    total, follower = 0, first
    while follower != NONE:
        total += trie.counts[follower]
        follower = trie.links[follower, NEXT]
    follower = first
    while follower != NONE:
        entry = (position, trie.links[follower, TOKEN], follower, length + 1)
        _rise(draft, waiting, trie.counts[follower] / float(total) * chance, entry)
        waiting += 1
        follower = trie.links[follower, NEXT]
    return waiting


@compiled
def _grow_by_likelihood(text, shape, trie, draft, size, anchor, length):
    """Grow by the likeliest path below a matched string; return the size of the tree."""
    waiting = _push_followers(text, trie, draft, 0, 0, anchor, length, 1.0)
    while waiting and size < shape.width:
        position, token, at, length = _entry(draft, 0)
        chance = draft.chances[0]
        waiting -= 1
        if waiting:
            _sink(draft, waiting)
        after = _draft_at(draft.tree, size, position, token)
        if after == size:
            size += 1
        waiting = _push_followers(text, trie, draft, waiting, after, at, length, chance)
    return size


@compiled
def _grow(text, shape, trie, draft, root, longest, shortest):
    """Grow a tree from the longest match to the shortest; return its size."""
    size = 1
    draft.tree[0, FIRST] = NONE
    for length in range(min(longest, text.repeated[root]), shortest - 1, -1):
        if size == shape.width:
            break
        anchor = text.numbers[root, length - 1]
        if trie.links[anchor, PREVIOUS] == ABSENT or trie.links[anchor, FIRST] == NONE:
            continue
        if shape.by_likelihood:
            size = _grow_by_likelihood(text, shape, trie, draft, size, anchor, length)
        else:
            size = _grow_by_recency(text, shape, trie, draft, size, anchor, length)
    return size


@compiled
def _accepted(text, tree, size, width, first, until):
    """Return how many drafts are what follows in the text; a missing draft is a token 0."""
    position = 0
    for place in range(first, until):
        token = text.tokens[place]
        at = tree[position, FIRST]
        while at != NONE and tree[at, TOKEN] != token:
            at = tree[at, NEXT]
        if at == NONE:
            return place - first + (token == 0 and place == first and size < width)
        position = at
    return until - first


@compiled
def _follows(text, trie, place, matched):
    """Tell whether a token has followed the shortest match: if not, it is not drafted."""
    return matched > 0 and text.known[place] > 1 and _is_known(text, trie, place, 2)


@compiled
def _verify(text, shape, trie, draft, batch, slot):
    """Draft for a request; return how many drafts the target confirms."""
    stream, root = batch.stream[slot], batch.root[slot]
    first, until = root + 1, min(root + shape.width, text.starts[stream + 1])
    if shape.longest:
        begin = max(text.starts[stream], root - shape.depth + 1)
        longest, shortest = min(root - begin + 1, shape.longest), shape.shortest
    else:
        longest, shortest = _match(text, shape, trie, batch, slot), 1
        if first < until and text.tokens[first] and not _follows(text, trie, first, longest):
            return 0
    size = _grow(text, shape, trie, draft, root, longest, shortest)
    return _accepted(text, draft.tree, size, shape.width, first, until)


@compiled
def _admit(text, batch, running, following):
    """Fill the batch from the streams that wait; return how many run and who is next."""
    while running < len(batch.stream) and following < len(text.roots):
        if text.limits[following] - text.roots[following] > 1:
            batch.stream[running], batch.root[running] = following, text.roots[following]
            batch.matched_at[running], batch.drafted[running] = -1, 0
            running += 1
        following += 1
    return running, following


@compiled
def _keep(batch, to, at):
    batch.stream[to], batch.root[to] = batch.stream[at], batch.root[at]
    batch.matched[to], batch.matched_at[to] = batch.matched[at], batch.matched_at[at]
    batch.drafted[to] = 1


@compiled
def replay(text, shape, trie, draft, batch, found):
    """Serve the streams in order; write each verify step to `found` and return how many."""
    joins = not (shape.longest or shape.by_likelihood)
    running, following = _admit(text, batch, 0, 0)
    steps, writer, written = 0, -1, -1
    while running:
        for slot in range(running):
            batch.correct[slot] = _verify(text, shape, trie, draft, batch, slot)
        kept = 0
        for slot in range(running):
            stream, root, correct = batch.stream[slot], batch.root[slot], batch.correct[slot]
            left = text.limits[stream] - 1 - root
            taken = min(correct + 1, left)
            tail = root if shape.behind else root + taken
            since = written + 1 if joins and writer == stream else 0
            _insert(text, shape, trie, stream, tail, since)
            # SGLang knows beforehand of an end that one token brings, and computes no step past it.
            if shape.overlap and shape.behind and correct >= left - 1 and left > 1:
                unseen = max(0, correct + 1 - left)
                since = tail + 1 if joins else 0
                tail = min(root + taken + unseen, text.starts[stream + 1] - 1)
                _insert(text, shape, trie, stream, tail, since)
            writer, written = stream, tail
            found[steps, 0], found[steps, 1], found[steps, 2] = stream, taken, correct
            steps += 1
            batch.root[slot] = root + taken
            if left > taken:
                _keep(batch, kept, slot)
                kept += 1
        running, following = _admit(text, batch, kept, following)
    return steps
