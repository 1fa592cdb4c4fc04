"""The command `python -m infra.emulated`: an emulated SGLang server under SGLang's own flags."""

import gc
import os
import sys

from infra.emulated.life.launch import main

if __name__ == "__main__":
    # The trie has a million nodes and no cycles: a full collection would stop the server.
    gc.freeze()
    gc.set_threshold(50_000, 1_000, 1_000_000)
    sys.exit(main(sys.argv[1:], os.environ))
