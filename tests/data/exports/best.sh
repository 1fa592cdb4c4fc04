#!/bin/sh
# speculative_algorithm=NGRAM speculative_num_draft_tokens=4
# decode_tok_s 120.0 tok/s (95 % interval 119.0 to 121.0), 1.50 x best plain decode
# Trial t-0001 of sweep t, 2026-01-01T00:00:00+00:00.
# Measured with SGLang 0.5.23; 0.5.3 to 0.5.23 take the same options.
# Host local, fingerprint 0f1e2d3c4b5a.
# Load: reasoning prompts, up to 512 tokens, 1, 4 at a time.
# Plan e236e898a84e; `orchestrator verify` measures it again from this file.
# Baseline: plain decode, 80.0 tok/s.
# Note: it is a test.
# Arguments are passed on to the server.
set -eu
export NCCL_PROTO=LL
default_python='/other venv/bin/python'
exec "${PYTHON:-$default_python}" -m sglang.launch_server \
    --model-path '/models/it'"'"'s a model' \
    --trust-remote-code \
    --tp-size 8 \
    --mem-fraction-static 0.88 \
    --disable-cuda-graph \
    --host "${HOST:-127.0.0.1}" --port "${PORT:-30000}" "$@"

# --- measured, as data: read by `orchestrator verify`, sealed by a hash ---
# {
#  "export": 1,
#  "format": "sh",
#  "plan": "e236e898a84e",
#  "sweep": "t",
#  "trial": "t-0001",
#  "variant": "3027bd5e",
#  "emulated": false,
#  "measured_at": "2026-01-01T00:00:00+00:00",
#  "engine_version": "0.5.23",
#  "engine_versions": ["0.5.3", "0.5.23"],
#  "fingerprint": "0f1e2d3c4b5a",
#  "config": {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4},
#  "settings": {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4, "tp_size": 8},
#  "pins": {"tp_size": 8},
#  "chosen_by_the_server": {},
#  "argv": ["/other venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/it's a model", "--trust-remote-code", "--tp-size", "8", "--mem-fraction-static", "0.88", "--disable-cuda-graph"],
#  "env": {"NCCL_PROTO": "LL"},
#  "metric": "decode_tok_s",
#  "unit": "tok/s",
#  "value": 120.0,
#  "low": 119.0,
#  "high": 121.0,
#  "starts": 1,
#  "confirmed": false,
#  "gain_over_plain": 1.5,
#  "baseline": {"config": {"speculative_algorithm": null}, "value": 80.0, "low": 79.0, "high": 81.0, "starts": 1, "trial": "t-0000"},
#  "ties": 0,
#  "evidence": "decode_tok_s 120.0 tok/s (95 % interval 119.0 to 121.0), 1.50 x best plain decode",
#  "warnings": ["it is a test"],
#  "workload": {"prompts": "reasoning", "max_tokens": 512, "cold_prompts": 4, "measured_prompts": 24, "measure_s": 90.0, "concurrency": 1, "dialect": "chat", "temperature": 0.0, "ignore_eos": false, "seed": 0, "concurrencies": [4], "loaded_prompts": 16, "requests_per_s": null, "open_loop_prompts": 64, "probe_s": 20.0, "probe_prompts": 1, "probe_tokens": 2048, "warming_prompts": 4, "warming_passes": 4, "top_p": 1.0, "top_k": -1, "sampling_seed": 0, "contents": "0555ff9843b1"},
#  "host": {"name": "node", "engine": "sglang", "python": "/other venv/bin/python", "gpus": 8, "version": "0.5.23", "env": {}, "time_scale": 50.0, "truth": "M", "scenario": null},
#  "budget": {"start_s": 900.0, "stop_grace_s": 20.0},
#  "zone_fraction": 0.01,
#  "launch_spread": [0.015, 8],
#  "seal": {"export": "6b86b273", "format": "fa1e0f6f", "plan": "9a0e7623", "sweep": "8ca5d815", "trial": "3d266ea1", "variant": "ec0ada49", "emulated": "fcbcf165", "measured_at": "3e0e1a8a", "engine_version": "5ad96df4", "engine_versions": "73f66740", "fingerprint": "6be0cf26", "config": "3027bd5e", "settings": "e471be99", "pins": "73940d76", "chosen_by_the_server": "44136fa3", "argv": "52f3b033", "env": "9da55fc4", "metric": "4bc21d82", "unit": "2d269e61", "value": "184999fc", "low": "96b8cfdc", "high": "96898cc4", "starts": "6b86b273", "confirmed": "fcbcf165", "gain_over_plain": "9f29a130", "baseline": "62dc1639", "ties": "5feceb66", "evidence": "e7823dc4", "warnings": "4f2aaf7c", "workload": "ce1cbf32", "host": "e07bb3e5", "budget": "230edbef", "zone_fraction": "312b95ee", "launch_spread": "2e443bd8"}
# }
# --- end of data ---
