"""SGLang's own C++ trie over streams whose steps are known, timed in its own environment."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from infra.sglang_cpu.launch import server_variables
from infra.sglang_cpu.layout import DEFAULT_ENV, EnvLayout
from sweeps.drafting.ngram import NgramShape
from sweeps.replay.streams import Steps, Stream

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("trie_steps.py")
LIMIT_S = 600


def sglang_steps_per_s(streams: Sequence[Stream], shape: NgramShape, steps: Steps) -> float | None:
    """Return matches and insertions per second; None where SGLang is not there."""
    env = EnvLayout(ROOT / DEFAULT_ENV)
    if not env.python.exists():
        return None
    order = {
        "corpus": {
            "max_trie_depth": shape.depth,
            "min_bfs_breadth": shape.min_breadth,
            "max_bfs_breadth": shape.max_breadth,
            "draft_token_num": shape.draft_tokens,
            "match_type": "PROB" if shape.by_likelihood else "BFS",
            "capacity": 2_000_000,
            "external_sam_budget": 0,
        },
        "texts": [[*s.prompt, *s.output] for s in streams],
        "roots": [len(s.prompt) for s in streams],
        "stream": steps.stream.tolist(),
        "tokens": steps.tokens.tolist(),
    }
    done = subprocess.run(
        [str(env.python), str(PROGRAM)],
        input=json.dumps(order), capture_output=True, text=True, timeout=LIMIT_S, check=True,
        env=server_variables(env) | {"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return float(done.stdout)
