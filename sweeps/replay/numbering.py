# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False
"""Numbers for all strings of a text that can be matched, found before the first draft.

A row of `links` is a string: its first follower, the next and the previous one of its own
siblings, and its last token. The first field of a string that occurs once is -(place + 2), with
the place in the text of its last token: what follows it is what follows in the text. A string
that was not inserted yet has ABSENT for previous.
"""

import numpy as np
from numba import njit

FIRST, NEXT, PREVIOUS, TOKEN = 0, 1, 2, 3
NONE, ABSENT = -1, -2


@njit(cache=True)
def number_strings(text, starts, depth):
    """Number all strings of up to `depth` tokens whose longest proper prefix occurs twice.

    Return the numbers by place and length, how many lengths each place has, how many of those
    occur twice, and the rows of `links`.
    """
    places = len(text)
    numbers = np.full((places, depth), NONE, np.int32)
    known = np.zeros(places, np.int32)
    repeated = np.zeros(places, np.int32)
    began = np.zeros(places, np.int32)
    for stream in range(len(starts) - 1):
        for place in range(starts[stream], starts[stream + 1]):
            began[place] = starts[stream]
    capacity = 1024
    tokens = np.empty(capacity, np.int32)
    last = np.empty(capacity, np.int32)
    counts = np.empty(capacity, np.int32)
    size = 16
    while size < 2 * places:
        size *= 2
    keys = np.empty(size, np.int64)
    values = np.empty(size, np.int32)
    total = 0
    for length in range(1, depth + 1):
        keys[:] = -1
        found = 0
        for place in range(places):
            if place - length + 1 < began[place]:
                continue
            parent = 0
            if length > 1:
                if repeated[place - 1] < length - 1:
                    continue
                parent = numbers[place - 1, length - 2] + 1
            key = (np.int64(parent) << 32) | np.int64(text[place])
            at = (key * np.int64(0x9E3779B97F4A7C1) >> 20) & (size - 1)
            while keys[at] != -1 and keys[at] != key:
                at = (at + 1) & (size - 1)
            if keys[at] == -1:
                keys[at] = key
                values[at] = total
                if total == capacity:
                    capacity *= 2
                    tokens = _grown(tokens, capacity)
                    last = _grown(last, capacity)
                    counts = _grown(counts, capacity)
                tokens[total] = text[place]
                counts[total] = 0
                total += 1
            number = values[at]
            numbers[place, length - 1] = number
            known[place] = length
            counts[number] += 1
            last[number] = place
            found += 1
        for place in range(places):
            number = numbers[place, length - 1]
            if number >= 0 and counts[number] > 1:
                repeated[place] = length
        if not found:
            break
    links = np.empty((total, 4), np.int32)
    for number in range(total):
        links[number, FIRST] = NONE if counts[number] > 1 else -(last[number] + 2)
        links[number, NEXT] = NONE
        links[number, PREVIOUS] = ABSENT
        links[number, TOKEN] = tokens[number]
    return numbers, known, repeated, links


@njit(cache=True)
def _grown(array, capacity):
    larger = np.empty(capacity, array.dtype)
    larger[: len(array)] = array
    return larger
