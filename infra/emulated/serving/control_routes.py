"""The routes of the emulated server that tell of it and change it."""

import asyncio
import time
from datetime import UTC, datetime

import orjson
from starlette.requests import Request
from starlette.responses import Response

from infra.emulated.logs import RANK, SERVER
from infra.emulated.resolution import whole
from infra.emulated.serving import replies
from infra.emulated.serving.corpora import CorpusError
from infra.emulated.serving.replies import Json
from infra.emulated.serving.state import ServerState
from infra.emulated.serving.validation import (
    UnreadableBodyError,
    read_body,
    validation,
    wrong_message,
)
from infra.sglang.protocol import Feature

_GRAPH_PHASES = (
    "prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend",
)  # fmt: skip
_SECTIONS = ("core", "memory", "spec", "lora", "disagg", "queues", "all")
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
_LEAST_SLEEP_S = 0.05
_DISAGGREGATION = (
    "prefill_bootstrap_queue_reqs", "prefill_inflight_queue_reqs", "decode_prealloc_queue_reqs",
    "decode_transfer_queue_reqs", "decode_retracted_queue_reqs",
)  # fmt: skip


class ControlRoutes:
    """Information on one server and the small changes that it allows."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def server_info(self, request: Request) -> Response:
        """Return all resolved arguments and the scheduler's state."""
        state = self._state
        facts, scheduler = state.facts, state.scheduler
        self._deplore(request)
        room = scheduler.engine.kv_room_tokens
        reported = state.scenario.now.overrides.reported
        body: Json = {**facts.args, "launch_command": facts.launch_command}
        body |= {
            "status": "ready" if state.ready else "starting",
            "max_total_num_tokens": room,
            "max_req_input_len": min(room, scheduler.engine.settings.context_tokens) - 6,
            "startup_time": self._start_times(),
            "internal_states": [{**self._internal_state(), **reported}],
            "version": facts.version,
            "frontend": "python",
            "emulated": True,
        }
        return _json({**body, **reported})

    def _internal_state(self) -> Json:
        state = self._state
        facts, scheduler = state.facts, state.scheduler
        totals = scheduler.totals
        shown: Json = {
            **facts.args,
            "last_gen_throughput": totals.last_gen_throughput,
            "memory_usage": self._memory_usage(),
            "emulated_lag_s": scheduler.lag_s,
        }
        if facts.how.since("0.5.9"):
            shown["effective_max_running_requests_per_dp"] = facts.args["max_running_requests"]
        if facts.how.since("0.5.18"):
            times = self._start_times()
            shown["startup_time"] = {n: t for n, t in times.items() if n != "tokenizer_e2e"}
        if facts.how.since("0.5.20"):
            shown |= {
                "world_size": whole(facts.args, "tp_size", 1) * whole(facts.args, "pp_size", 1),
                "decode_cuda_graph_bs": list(facts.graph_sizes),
                "decode_cuda_graph_memory_gb": 0.0,
            }
            if facts.is_set("SGLANG_EXPOSE_OWN_ENV_VARS"):
                shown["env_vars"] = dict(facts.environment)
        if totals.verifies:
            shown["avg_spec_accept_length"] = totals.verified_tokens / totals.verifies
        return shown

    def _start_times(self) -> Json:
        times = dict(self._state.facts.start_times_s)
        graphs = times.get("cuda_graph")
        captured = graphs if isinstance(graphs, dict) else {}
        loaded_s = sum(t for t in times.values() if isinstance(t, float))
        times["scheduler_e2e"] = times["tokenizer_e2e"] = loaded_s
        times["cuda_graph"] = {phase: captured.get(phase, 0.0) for phase in _GRAPH_PHASES}
        return times

    def _memory_usage(self) -> Json:
        facts = self._state.facts
        capacity = self._state.scheduler.engine.kv_room_tokens
        usage: Json = {"weight": facts.memory_gib.get("weight", 0.0)}
        usage["kvcache"] = facts.memory_gib.get("kvcache", 0.0)
        if not facts.how.since("0.5.20"):
            return {**usage, "token_capacity": capacity, "graph": 0.0}
        return {
            **usage,
            "startup_available": facts.memory_gib.get("startup_available", 0.0),
            "token_capacity": capacity,
            "token_capacity_swa": None,
            "graph": dict.fromkeys(_GRAPH_PHASES, 0.0),
        }

    def _deplore(self, request: Request) -> None:
        """Warn of an old name where there is a new one."""
        old = request.url.path
        new = old.replace("/get_", "/")
        if old != new and self._state.facts.how.has_route(new):
            SERVER.warning(
                "Endpoint '%s' is deprecated and will be removed in a future version. "
                "Please use '%s' instead.",
                old,
                new,
            )

    async def model_info(self, request: Request) -> Response:
        """Describe the model."""
        self._deplore(request)
        args = self._state.facts.args
        return _json(
            {
                "model_path": args["model_path"],
                "served_model_name": args["served_model_name"],
                "tokenizer_path": args["tokenizer_path"],
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": args["weight_version"],
                "load_format": args["load_format"],
                "reasoning_parser": args["reasoning_parser"],
                "tool_call_parser": args["tool_call_parser"],
                "disaggregation_mode": "null",
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "kimi_k25",
                "architectures": ["KimiK25ForConditionalGeneration"],
            }
        )

    async def models(self, _: Request) -> Response:
        """List the one model."""
        return _json({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """Describe the one model, or refuse any other."""
        name = request.path_params["model"]
        if name == self._state.facts.model:
            return _json(self._model())
        error = {
            "message": f"The model '{name}' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return _json({"error": error}, status=404)

    def _model(self) -> Json:
        name = self._state.facts.model
        return {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": name,
            "parent": None,
            "max_model_len": self._state.scheduler.engine.settings.context_tokens,
        }

    async def flush_cache(self, request: Request) -> Response:
        """Empty the caches; refused while requests run, unless `timeout` host seconds suffice."""
        state = self._state
        wait_s = _timeout_s(request) if state.facts.how.has(Feature.FLUSH_WAITS) else 0.0
        until_s = state.clock.now_s() + wait_s
        while not state.scheduler.idle and state.clock.now_s() < until_s:
            await asyncio.sleep(min(_LEAST_SLEEP_S, state.clock.real_s(wait_s)))
        if not state.scheduler.flush():
            told = replies.FLUSH_TIMED_OUT if wait_s else replies.FLUSH_REFUSED
            if not state.facts.how.has(Feature.FLUSH_TELLS):
                told = replies.FLUSHED
            return Response(told, status_code=400)
        RANK.info("Cache flushed successfully!")
        return Response(replies.FLUSHED)

    async def abort_request(self, request: Request) -> Response:
        """End one request by id, or all."""
        body = read_body(await request.body())
        rid = body.get("rid")
        if rid is not None and not isinstance(rid, str):
            raise wrong_message("AbortReq", "string_type", "rid", given=rid)
        if rid or body.get("abort_all"):
            self._state.scheduler.abort(rid or "", every=bool(body.get("abort_all")))
        return Response(status_code=200)

    async def set_internal_state(self, request: Request) -> Response:
        """Change what may be changed without a restart; old versions agree to anything."""
        body = read_body(await request.body())
        wanted = body.get("server_args")
        if not isinstance(wanted, dict):
            kind = "missing" if wanted is None else "dict_type"
            raise wrong_message("SetInternalStateReq", kind, "server_args", given=wanted)
        state = self._state
        refused = next(filter(None, (self._refusal(n, v) for n, v in wanted.items())), "")
        if refused:
            SERVER.warning(refused)
        elif any(name in _THRESHOLDS for name in wanted):
            state.scheduler.forget_totals()
        return _json([not refused or not state.facts.how.state_update_admits])

    def _refusal(self, name: str, value: object) -> str:
        args = self._state.facts.args
        if name in _THRESHOLDS:
            return ""
        if name != "pp_max_micro_batch_size":
            return f"Updating {name} is not supported."
        upper = whole(args, "max_running_requests", 1) // whole(args, "pp_size", 1)
        if isinstance(value, int) and 1 <= value <= upper:
            return ""
        return (
            f"Updating {name} to {value} is rejected because it is out of the valid range "
            f"[1, {upper}]."
        )

    async def get_load(self, _: Request) -> Response:
        """Tell how much is running, in the older form."""
        scheduler, how = self._state.scheduler, self._state.facts.how
        load: Json = {
            "dp_rank": 0,
            "num_reqs": scheduler.running + scheduler.waiting,
            "num_waiting_reqs": scheduler.waiting,
            "num_tokens": scheduler.held_tokens,
        }
        if how.since("0.5.12"):
            load |= {"num_pending_tokens": 0, "ts_tic": time.perf_counter()}
        return _json([load])

    async def loads(self, request: Request) -> Response:
        """Tell how much is running."""
        asked = request.query_params.get("include")
        include = {part.strip() for part in asked.split(",")} if asked else {"all"}
        if not include <= set(_SECTIONS):
            return Response("Internal Server Error", 500, media_type="text/plain")
        rank = request.query_params.get("dp_rank", "0")
        loads = [self._load(include)] if rank == "0" else []
        if request.query_params.get("format") == "prometheus":
            return Response(_as_prometheus(loads), media_type="text/plain; version=0.0.4")
        return _json(
            {
                "timestamp": datetime.now(UTC).isoformat(),
                "version": self._state.facts.version,
                "accelerator": None,
                "num_accelerators": whole(self._state.facts.args, "tp_size", 1),
                "loads": loads,
            }
        )

    def _load(self, include: set[str]) -> Json:
        state = self._state
        scheduler, facts = state.scheduler, state.facts
        held, room = scheduler.held_tokens, scheduler.engine.kv_room_tokens
        load: Json = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": scheduler.running,
            "num_waiting_reqs": scheduler.waiting,
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": held,
            "num_total_tokens": held,
            "num_active_tokens": held,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": room,
            "max_running_requests": facts.args["max_running_requests"],
            "token_usage": held / room,
            "gen_throughput": scheduler.totals.last_gen_throughput,
            "cache_hit_rate": 0.0,
            "utilization": 0.0,
            "total_prefill_uncached_tokens": 0,
            "total_prefill_busy_us": 0,
            "decode_moments": [0.0] * 6,
        }
        if include & {"memory", "all"}:
            load["memory"] = {
                "weight_gb": facts.memory_gib.get("weight", 0.0),
                "kv_cache_gb": facts.memory_gib.get("kvcache", 0.0),
                "graph_gb": 0.0,
                "token_capacity": room,
            }
        totals = scheduler.totals
        if totals.verifies and include & {"spec", "all"}:
            length = totals.verified_tokens / totals.verifies
            slots = max(1, scheduler.engine.settings.draft_tokens - 1)
            load["speculative"] = {
                "accept_length": length,
                "accept_rate": (length - 1) / slots,
            }
        if include & {"disagg", "all"}:
            speeds = {"kv_transfer_speed_gb_s": 0.0, "kv_transfer_latency_ms": 0.0}
            counts = dict.fromkeys(_DISAGGREGATION, 0)
            load["disaggregation"] = {"mode": "null", **counts, **speeds}
        if include & {"queues", "all"}:
            names = ("waiting", "grammar", "paused", "retracted", "prealloc_ready")
            load["queues"] = {**dict.fromkeys(names, 0), "waiting": scheduler.waiting}
        return load

    async def add_corpus(self, request: Request) -> Response:
        """Load an external corpus."""
        body = read_body(await request.body())
        try:
            return _json(self._state.corpora.add(body))
        except TypeError as error:
            return _json({"success": False, "message": str(error)}, status=400)
        except CorpusError as error:
            told: Json = {"success": False, "corpus_id": "", "message": str(error)}
            return _json({**told, "loaded_token_count": 0}, status=400)

    async def remove_corpus(self, request: Request) -> Response:
        """Forget an external corpus."""
        body = read_body(await request.body())
        name = body.get("corpus_id")
        try:
            if not name:
                raise CorpusError("corpus_id is required.")
            return _json({"success": True, "message": self._state.corpora.remove(str(name))})
        except CorpusError as error:
            return _json({"success": False, "message": str(error)}, status=400)

    async def list_corpora(self, _: Request) -> Response:
        """Name the external corpora."""
        state = self._state
        if not state.scheduler.engine.drafts_from_corpora:
            told = "Ngram speculative decoding is not enabled."
            body: Json = {"success": False, "corpus_token_counts": {}, "message": told}
            return _json(body, status=400)
        counts = dict(state.corpora.counts)
        return _json({"success": True, "corpus_token_counts": counts, "message": ""})


def _timeout_s(request: Request) -> float:
    """Read the limit of a flush in host seconds. Raises UnreadableBodyError."""
    text = request.query_params.get("timeout") or "0"
    detail: Json = {"loc": ("query", "timeout"), "input": text}
    try:
        wait_s = float(text)
    except ValueError as error:
        told = "Input should be a valid number, unable to parse string as a number"
        raise UnreadableBodyError(
            validation({"type": "float_parsing", **detail, "msg": told})
        ) from error
    if wait_s < 0:
        told = "Input should be greater than or equal to 0"
        raise UnreadableBodyError(validation({"type": "greater_than_equal", **detail, "msg": told}))
    return wait_s


def _as_prometheus(loads: list[Json]) -> str:
    lines = []
    for load in loads:
        for name, value in load.items():
            parts = value.items() if isinstance(value, dict) else [("", value)]
            prefix = {"speculative": "spec", "disaggregation": "disagg"}.get(name, name)
            for part, number in parts:
                metric = f"sglang_{prefix}_{part}" if part else f"sglang_{name}"
                if name != "dp_rank" and isinstance(number, int | float):
                    lines += [f"# TYPE {metric} gauge", f'{metric}{{dp_rank="0"}} {number}']
    return "\n".join(lines) + "\n"


def _json(body: object, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")
