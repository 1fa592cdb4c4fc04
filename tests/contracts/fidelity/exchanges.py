"""The requests that both servers are sent, in this order."""

from dataclasses import dataclass

from tests.contracts.fidelity.peer import Json, chat, native

CONTEXT_TOKENS = 2048
"""Of the tiny model, and therefore of its emulated counterpart."""
PROMPT = "def parse(line):\n    return"
IDS = [40, 41, 42, 43, 44, 45]
TOKENS = 12
STOP_TEXT = "<STOP TEXT>"
STOP_ID = -987_654
"""Marks in a body that each server gets filled from its own greedy output."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request whose replies are compared."""

    name: str
    method: str
    path: str
    body: object = None
    stream: bool = False
    flushed: bool = False
    """Whether the caches are emptied before."""
    part: bool = False
    """Whether the emulated server may leave things out."""

    def sent(self, stop_text: str, stop_id: int) -> object:
        """Return the body with the marks filled."""
        return _filled(self.body, {STOP_TEXT: stop_text, STOP_ID: stop_id})


def _filled(value: object, marks: dict[object, object]) -> object:
    if isinstance(value, dict):
        return {key: _filled(inner, marks) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, marks) for inner in value]
    if isinstance(value, str | int) and not isinstance(value, bool):
        return marks.get(value, value)
    return value


def _native(name: str, body: Json) -> list[Exchange]:
    """Return the request whole and streamed."""
    return [
        Exchange(f"generate {name}", "POST", "/generate", body, flushed=True),
        Exchange(
            f"generate {name}, stream", "POST", "/generate",
            {**body, "stream": True}, stream=True, flushed=True,
        ),
    ]  # fmt: skip


def _chat(name: str, body: Json) -> list[Exchange]:
    path = "/v1/chat/completions"
    return [
        Exchange(f"chat {name}", "POST", path, body, flushed=True),
        Exchange(
            f"chat {name}, stream", "POST", path,
            {**body, "stream": True}, stream=True, flushed=True,
        ),
    ]  # fmt: skip


def _sampling(**params: object) -> Json:
    base = native(PROMPT, TOKENS)
    return {**base, "sampling_params": {**base["sampling_params"], **params}}


def _without(body: Json, *names: str) -> Json:
    return {name: value for name, value in body.items() if name not in names}


_USAGE = {"include_usage": True}
_CONTINUOUS = {"include_usage": True, "continuous_usage_stats": True}

GENERATION: list[Exchange] = [
    *_native("text", native(PROMPT, TOKENS)),
    *_native("ids", native(IDS, TOKENS)),
    *_native("with rid", native(PROMPT, TOKENS, rid="mine")),
    *_native("batch", native(PROMPT, TOKENS) | {"text": [PROMPT, "class A:"]}),
    *_native("batch of ids", native(IDS, TOKENS) | {"input_ids": [IDS, [50, 51, 52]]}),
    *_native("n=2", _sampling(n=2)),
    *_native("no sampling", {"text": PROMPT}),
    *_native("one token", _sampling(max_new_tokens=1)),
    *_native("no token", _sampling(max_new_tokens=0)),
    *_native("stop text", _sampling(stop=[STOP_TEXT])),
    *_native("stop text alone", _sampling(stop=STOP_TEXT)),
    *_native("stop id", _sampling(stop_token_ids=[STOP_ID])),
    *_native("keeping stop", _sampling(stop=STOP_TEXT, no_stop_trim=True)),
    *_native("may end", _sampling(ignore_eos=False)),
    *_native("warm", _sampling(temperature=0.8, top_p=0.9, top_k=20, sampling_seed=3)),
    *_chat("plain", chat(PROMPT, TOKENS)),
    *_chat("stream options", chat(PROMPT, TOKENS, stream_options=_USAGE)),
    *_chat("continuous usage", chat(PROMPT, TOKENS, stream_options=_CONTINUOUS)),
    *_chat("spec details", chat(PROMPT, TOKENS, return_spec_tokens_details=True)),
    *_chat("meta info", chat(PROMPT, TOKENS, return_meta_info=True)),
    *_chat("ids", chat(PROMPT, TOKENS, return_output_ids=True)),
    *_chat("cached tokens", chat(PROMPT, TOKENS, return_cached_tokens_details=True)),
    *_chat("n=2", chat(PROMPT, TOKENS, n=2, stream_options=_USAGE)),
    *_chat("one token", chat(PROMPT, 1)),
    *_chat("stop text", chat(PROMPT, TOKENS, stop=[STOP_TEXT])),
    *_chat("stop id", chat(PROMPT, TOKENS, stop_token_ids=[STOP_ID])),
    *_chat("unknown model", chat(PROMPT, TOKENS) | {"model": "no-such-model"}),
    *_chat("no model", _without(chat(PROMPT, TOKENS), "model")),
    *_chat("completion tokens", _without(chat(PROMPT, TOKENS), "max_tokens") | {
        "max_completion_tokens": TOKENS}),
    *_chat("parts", chat(PROMPT, TOKENS) | {
        "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]}),
    *_chat("system", chat(PROMPT, TOKENS) | {
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]}),
    *_chat("with rid", chat(PROMPT, TOKENS, rid="mine")),
]  # fmt: skip

_LONG_IDS = [7] * (CONTEXT_TOKENS + 100)

REFUSED: list[Exchange] = [
    *_native("temperature -1", _sampling(temperature=-1)),
    *_native("temperature text", _sampling(temperature="hot")),
    *_native("top_p 2", _sampling(top_p=2)),
    *_native("top_k -5", _sampling(top_k=-5)),
    *_native("top_k -5, warm", _sampling(top_k=-5, temperature=0.5)),
    Exchange(
        "generate max_new_tokens -1",
        "POST",
        "/generate",
        _sampling(max_new_tokens=-1),
    ),
    *_native("max_new_tokens text", _sampling(max_new_tokens="many")),
    *_native("max_new_tokens 1.5", _sampling(max_new_tokens=1.5)),
    *_native("unknown sampling", _sampling(no_such_parameter=1)),
    *_native("too many tokens", _sampling(max_new_tokens=CONTEXT_TOKENS * 2)),
    *_native("too long prompt", native(_LONG_IDS, 8)),
    *_native("no prompt", {"sampling_params": {"max_new_tokens": 4}}),
    *_native("both prompts", {**native(PROMPT, 4), "input_ids": IDS}),
    *_native("empty batch", native("", 4) | {"text": []}),
    *_native("text number", native("", 4) | {"text": 5}),
    *_native("sampling text", {"text": PROMPT, "sampling_params": "hot"}),
    *_native("unknown field", native(PROMPT, 4, no_such_field=1)),
    Exchange("generate stream text", "POST", "/generate", native(PROMPT, 4, stream="maybe")),
    Exchange("generate bad JSON", "POST", "/generate", b"{oops"),
    Exchange("generate nothing", "POST", "/generate", b""),
    Exchange("generate list", "POST", "/generate", [1]),
    Exchange("generate GET", "GET", "/generate"),
    *_chat("temperature -1", chat(PROMPT, 4, temperature=-1)),
    *_chat("temperature text", chat(PROMPT, 4, temperature="hot")),
    Exchange("chat max_tokens -1", "POST", "/v1/chat/completions", chat(PROMPT, -1)),
    *_chat("max_tokens 0", chat(PROMPT, 0)),
    *_chat("max_tokens text", chat(PROMPT, 4) | {"max_tokens": "many"}),
    *_chat("too many tokens", chat(PROMPT, CONTEXT_TOKENS * 2)),
    *_chat("too many tokens with its prompt", chat(PROMPT, CONTEXT_TOKENS - 4)),
    *_chat("too long prompt", chat("word " * (CONTEXT_TOKENS + 100), 4)),
    *_chat("no messages", _without(chat(PROMPT, 4), "messages")),
    *_chat("empty messages", chat(PROMPT, 4) | {"messages": []}),
    *_chat("messages text", chat(PROMPT, 4) | {"messages": PROMPT}),
    *_chat("unknown role", chat(PROMPT, 4) | {"messages": [{"role": "nobody", "content": "x"}]}),
    *_chat("no role", chat(PROMPT, 4) | {"messages": [{"content": "x"}]}),
    *_chat("no content", chat(PROMPT, 4) | {"messages": [{"role": "user"}]}),
    *_chat("unknown field", chat(PROMPT, 4, no_such_field=1)),
    Exchange("chat empty object", "POST", "/v1/chat/completions", {}),
    Exchange("chat bad JSON", "POST", "/v1/chat/completions", b"{oops"),
    Exchange("chat nothing", "POST", "/v1/chat/completions", b""),
    Exchange("chat GET", "GET", "/v1/chat/completions"),
    Exchange("unknown route", "GET", "/no_such_route"),
    Exchange("unknown route, POST", "POST", "/no_such_route", {}),
    Exchange("POST to health", "POST", "/health", {}),
    Exchange("HEAD of models", "HEAD", "/v1/models"),
    Exchange("DELETE flush", "DELETE", "/flush_cache"),
    Exchange("POST to models", "POST", "/v1/models", {}),
]

CONTROL: list[Exchange] = [
    Exchange("metrics", "GET", "/metrics", part=True),
    Exchange("server_info", "GET", "/server_info", part=True),
    Exchange("get_server_info", "GET", "/get_server_info", part=True),
    Exchange("ready", "GET", "/ready"),
    Exchange("health_generate", "GET", "/health_generate"),
    Exchange("ping", "GET", "/ping"),
    Exchange("model_info", "GET", "/model_info"),
    Exchange("get_model_info", "GET", "/get_model_info"),
    Exchange("models", "GET", "/v1/models"),
    Exchange("model unknown", "GET", "/v1/models/no-such-model"),
    Exchange("flush", "POST", "/flush_cache"),
    Exchange("flush by GET", "GET", "/flush_cache"),
    Exchange("flush with limit", "POST", "/flush_cache?timeout=5"),
    Exchange("flush bad limit", "POST", "/flush_cache?timeout=soon"),
    Exchange("flush negative limit", "POST", "/flush_cache?timeout=-1"),
    Exchange("abort unknown", "POST", "/abort_request", {"rid": "no-such-request"}),
    Exchange("abort all", "POST", "/abort_request", {"abort_all": True}),
    Exchange("abort empty", "POST", "/abort_request", {}),
    Exchange("abort bad type", "POST", "/abort_request", {"rid": 5}),
    Exchange("abort nothing", "POST", "/abort_request"),
    Exchange("get_load", "GET", "/get_load"),
    Exchange("loads", "GET", "/v1/loads"),
    Exchange("loads, one part", "GET", "/v1/loads?include=core"),
    Exchange("loads, bad part", "GET", "/v1/loads?include=nothing"),
    Exchange("loads, bad rank", "GET", "/v1/loads?dp_rank=7"),
    Exchange("loads, text", "GET", "/v1/loads?format=prometheus"),
    *[
        Exchange(f"state {name}", "POST", "/set_internal_state", body)
        for name, body in {
            "threshold": {"server_args": {"speculative_accept_threshold_single": 1.0}},
            "batch": {"server_args": {"pp_max_micro_batch_size": 4}},
            "batch too large": {"server_args": {"pp_max_micro_batch_size": 10**6}},
            "threshold too large": {"server_args": {"speculative_accept_threshold_acc": 7.0}},
            "draft tokens": {"server_args": {"speculative_num_draft_tokens": 4}},
            "nothing": {"server_args": {}},
            "empty": {},
            "bad type": {"server_args": 5},
        }.items()
    ],
    Exchange("corpora none", "GET", "/list_external_corpora"),
    Exchange(
        "corpus added", "POST", "/add_external_corpus",
        {"corpus_id": "one", "documents": ["def f(x): return x", "class A: pass"]},
    ),
    Exchange(
        "corpus twice", "POST", "/add_external_corpus",
        {"corpus_id": "one", "documents": ["def f(x): return x"]},
    ),
    Exchange("corpora one", "GET", "/list_external_corpora"),
    Exchange("corpus empty", "POST", "/add_external_corpus", {"corpus_id": "two", "documents": []}),
    Exchange("corpus of nothing", "POST", "/add_external_corpus", {"corpus_id": "two"}),
    Exchange("corpus unknown field", "POST", "/add_external_corpus", {"no_such_field": 1}),
    Exchange(
        "corpus no file", "POST", "/add_external_corpus",
        {"corpus_id": "two", "file_path": "/no/such/file"},
    ),
    Exchange(
        "corpus two sources", "POST", "/add_external_corpus",
        {"corpus_id": "two", "documents": ["x y z"], "file_path": "/no/such/file"},
    ),
    Exchange("corpus unnamed", "POST", "/add_external_corpus", {"documents": ["a b c d e f"]}),
    Exchange("corpora two", "GET", "/list_external_corpora"),
    Exchange("corpus removed", "POST", "/remove_external_corpus", {"corpus_id": "one"}),
    Exchange("corpus removed twice", "POST", "/remove_external_corpus", {"corpus_id": "one"}),
    Exchange("corpus removed, no id", "POST", "/remove_external_corpus", {}),
]  # fmt: skip

EXCHANGES = [*GENERATION, *REFUSED, *CONTROL]
