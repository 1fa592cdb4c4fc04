"""Imports what a server imports and compiles NGRAM's corpus; runs inside the environment."""

import importlib

# The server's process imports the first, its two child processes the others.
_SERVER_MODULES = (
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.detokenizer_manager",
)
_CORPUS_MODULE = "sglang.kernels.ops.speculative.ngram_corpus"


def main() -> None:
    """Fail on a package that is missing, and leave compiled what a first start would compile."""
    for name in _SERVER_MODULES:
        importlib.import_module(name)
    importlib.import_module(_CORPUS_MODULE).get_ngram_corpus_cls()


if __name__ == "__main__":
    main()
