"""Our client as a program beside the others: one pass, its account as JSON on the output."""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from infra.clock import ScaledClock
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.seam import Sampling
from sweeps.prompts import prompts_of


def main() -> None:
    """Run the pass that the command line tells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--deadline-s", type=float, default=120.0)
    parser.add_argument("--arrivals", action="store_true", help="Tell each arrival.")
    options = parser.parse_args()
    origin_s = time.monotonic()
    client = StreamingClient(ScaledClock())
    record = client.run_pass(
        options.url,
        prompts_of(f"stream {number}" for number in range(options.streams)),
        Sampling(max_tokens=options.tokens, ignore_eos=True),
        concurrency=options.streams,
        dialect="chat",
        deadline_s=options.deadline_s,
        silence_s=30.0,
        on_progress=lambda _: None,
        should_stop=lambda: False,
    )
    requests = record.requests
    bad = [r.detail for r in requests if r.output_tokens != options.tokens]
    if bad:
        sys.exit(f"not every stream was whole: {bad}")
    health = client.last_health
    told: dict[str, object] = {
        "token_ms": sum(r.decode_s for r in requests)
        / sum(r.decode_tokens for r in requests)
        * 1e3,
        "lag_p99_s": record.client_lag_s,
        "cpu_fraction": health.thread_cpu_fraction if health else None,
    }
    if options.arrivals:
        told["origin_s"] = origin_s
        told["streams"] = [{"times_s": r.times_s, "tokens": r.tokens} for r in requests]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
