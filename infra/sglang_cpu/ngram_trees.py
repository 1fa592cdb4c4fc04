"""Drives SGLang's own n-gram corpus; runs inside the environment.

Reads JSON lines from standard input and writes, for each `draft`, one JSON line with the tokens
and the parents of every request's draft tree. In a line, "do" is one of:

new      {"depth", "min_breadth", "max_breadth", "draft_tokens", "match_type", "capacity_nodes",
         "sam_budget"}: a fresh corpus, as a start of a server makes one
draft    {"requests", "tails", "totals"}: one batch's match, after all insertions have ended
insert   {"tails"}: what a worker inserts after a verify, by request
forget   {"requests"}: requests that left the batch
flush    {}
add      {"name", "documents"}: an external corpus
remove   {"name"}
"""

import json
import sys
from importlib import import_module
from itertools import islice
from typing import Any  # SGLang is not there where types are checked

_PACKAGE = "sglang.srt.speculative.cpp_ngram"
NgramCorpus: Any = import_module(f"{_PACKAGE}.ngram_corpus").NgramCorpus
SEPARATOR_TOKEN: int = import_module(f"{_PACKAGE}.external_corpus").SEPARATOR_TOKEN


def main() -> None:
    """Follow the lines until the input ends; the first one is a `new`."""
    corpus: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "new":
                corpus = _new(order)
            case "draft":
                corpus.synchronize()
                tokens, mask = corpus.batch_get(order["requests"], order["tails"], order["totals"])
                trees = _readable(tokens.tolist(), mask.tolist(), corpus.draft_token_num)
                sys.stdout.write(json.dumps(trees) + "\n")
            case "insert":
                corpus.batch_put(order["tails"])
            case "forget":
                corpus.erase_match_state(order["requests"])
            case "flush":
                corpus.synchronize()
                corpus.reset()
            case "add":
                _add(corpus, order["name"], order["documents"])
            case "remove":
                corpus.remove_external_corpus(order["name"])


def _new(order: dict[str, Any]) -> Any:
    return NgramCorpus(
        max_trie_depth=order["depth"],
        min_bfs_breadth=order["min_breadth"],
        max_bfs_breadth=order["max_breadth"],
        draft_token_num=order["draft_tokens"],
        match_type=order["match_type"],
        capacity=order["capacity_nodes"],
        external_sam_budget=order["sam_budget"],
    )


def _add(corpus: Any, name: str, documents: list[list[int]]) -> None:
    texts = [text for text in documents if text]
    chunks = [*texts[:1], *([SEPARATOR_TOKEN, *text] for text in texts[1:])]
    corpus.commit_external_corpus_load(name, corpus.load_external_corpus_named(name, chunks))


def _readable(tokens: list[int], mask: list[int], size: int) -> list[list[list[int]]]:
    """Return tokens and parents by request; a parent is the nearest ancestor in the mask."""
    rows = iter(mask)
    trees = []
    for start in range(0, len(tokens), size):
        parents = []
        for place in range(size):
            row = list(islice(rows, size))
            parents.append(max((n for n in range(place) if row[n]), default=-1))
        trees.append([tokens[start : start + size], parents])
    return trees


if __name__ == "__main__":
    main()
