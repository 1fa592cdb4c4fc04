"""Runs inside SGLang's environment: matches and inserts as its worker does, and times that.

Reads one JSON object: the corpus, whole texts, where the output of each begins, and the steps.
"""

import json
import sys
import time
from importlib import import_module
from typing import Any  # SGLang is not there where types are checked

NgramCorpus: Any = import_module("sglang.srt.speculative.cpp_ngram.ngram_corpus").NgramCorpus


def main() -> None:
    """Print the steps per second."""
    order = json.load(sys.stdin)
    corpus = NgramCorpus(**order["corpus"])
    depth = order["corpus"]["max_trie_depth"]
    ends = [root + 1 for root in order["roots"]]
    steps = []
    for stream, tokens in zip(order["stream"], order["tokens"], strict=True):
        end = ends[stream]
        steps.append((str(stream), order["texts"][stream][max(0, end - depth) : end], end))
        ends[stream] = end + tokens
    began_s = time.perf_counter()
    for name, tail, total in steps:
        corpus.synchronize()
        corpus.batch_get([name], [tail], [total])
        corpus.batch_put([tail])
    corpus.synchronize()
    print(len(steps) / (time.perf_counter() - began_s))


if __name__ == "__main__":
    main()
