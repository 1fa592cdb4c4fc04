"""What happens between requests on either server: abort, leaving clients, a busy flush."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.contracts.fidelity.exchanges import CONTEXT_TOKENS, PROMPT
from tests.contracts.fidelity.peer import LIMIT_S, Json, Peer, chat, native
from tests.contracts.fidelity.shapes import Facts, facts_of

LONG_TOKENS = CONTEXT_TOKENS - 100
_SOME_STEPS_S = 0.2
_FITTING_TOKENS = 900
"""So many that as many requests as may run fit into the KV cache together."""
MOST_RUNNING = 8
Scene = Callable[[Peer], Facts]


def abort_of_a_stream(peer: Peer) -> Facts:
    """End one of two streams by its id."""
    with (
        peer.streaming(native(PROMPT, LONG_TOKENS, rid="first")) as first,
        peer.streaming(native(PROMPT, 100, rid="second")) as second,
    ):
        told = peer.ask("POST", "/abort_request", {"rid": "first"})
        ended, kept = first.rest(), second.rest()
    assert ended.chunks[-1]["meta_info"]["completion_tokens"] < LONG_TOKENS
    facts = {f"told {k}": v for k, v in facts_of(told).items()}
    facts |= facts_of(ended, stream=True)
    return facts | {f"other {k}": v for k, v in facts_of(kept, stream=True).items()}


def abort_of_a_chat(peer: Peer) -> Facts:
    """End a chat stream by its id."""
    body = chat(PROMPT, LONG_TOKENS, rid="talk", stream_options={"include_usage": True})
    with peer.streaming(body, "/v1/chat/completions") as talk:
        peer.ask("POST", "/abort_request", {"rid": "talk"})
        return facts_of(talk.rest(), stream=True)


def abort_of_a_whole_reply(peer: Peer) -> Facts:
    """End all requests while one client waits for its whole reply."""
    return _aborted_whole(peer, "/generate", native(PROMPT, LONG_TOKENS))


def abort_of_a_whole_chat(peer: Peer) -> Facts:
    """End all requests while one client waits for its whole chat reply."""
    return _aborted_whole(peer, "/v1/chat/completions", chat(PROMPT, LONG_TOKENS))


def _aborted_whole(peer: Peer, path: str, body: object) -> Facts:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(peer.ask, "POST", path, body)
        _wait_until_busy(peer)
        time.sleep(_SOME_STEPS_S)
        peer.ask("POST", "/abort_request", {"rid": "", "abort_all": True})
        return facts_of(waiting.result(LIMIT_S))


def abort_by_the_start_of_an_id(peer: Peer) -> Facts:
    """Name only the start of a request's id."""
    with peer.streaming(native(PROMPT, 200, rid="left-1")) as running:
        peer.ask("POST", "/abort_request", {"rid": "left"})
        last = running.rest().chunks[-1]
    return {"finish": str(last["meta_info"]["finish_reason"]["type"])}


def abort_of_a_waiting_request(peer: Peer) -> Facts:
    """End a request that found no place."""
    full = native(PROMPT, _FITTING_TOKENS) | {
        "text": [f"{n} {PROMPT}" for n in range(MOST_RUNNING)]
    }
    with peer.streaming(full), ThreadPoolExecutor(1) as pool:
        time.sleep(_SOME_STEPS_S)
        queued = {**native(PROMPT, 8, rid="queued"), "stream": True}
        waiting = pool.submit(peer.ask, "POST", "/generate", queued)
        time.sleep(_SOME_STEPS_S)
        assert not waiting.done()
        until_s = time.monotonic() + LIMIT_S
        while not waiting.done():  # the order has no effect before the request is there
            assert time.monotonic() < until_s
            peer.ask("POST", "/abort_request", {"rid": "queued"})
            time.sleep(_SOME_STEPS_S)
        facts = facts_of(waiting.result(LIMIT_S), stream=True)
        peer.ask("POST", "/abort_request", {"abort_all": True})
        return facts


def same_id_twice(peer: Peer) -> Facts:
    """Send a request whose id is running."""
    with peer.streaming(native(PROMPT, LONG_TOKENS, rid="one")) as running:
        again = peer.generate(PROMPT, 4, rid="one")
        peer.ask("POST", "/abort_request", {"abort_all": True})
        return {**facts_of(again), "first": str(len(running.rest().events) > 2)}


def client_leaves(peer: Peer) -> Facts:
    """Close the connection of a stream: its request is aborted."""
    before = _aborted(peer)
    with peer.streaming(_slow(LONG_TOKENS)):
        pass
    peer.flush()
    return {"aborted": str(_aborted(peer) - before)}


def whole_client_leaves(peer: Peer) -> Facts:
    """Close the connection of a request that does not stream: the server gets idle all the same.

    SGLang looks for such a client every 4 s only, so a short request ends by itself.
    """
    with peer.asking("POST", "/generate", native(PROMPT, 200)):
        _wait_until_busy(peer)
    peer.flush()
    return {"idle": "in the end"}


def flush_while_busy(peer: Peer) -> Facts:
    """Ask for a flush at once, with a limit that is too short, and with one that suffices."""
    with peer.streaming(_slow(600)) as running, ThreadPoolExecutor(1) as pool:
        at_once = peer.ask("POST", "/flush_cache")
        too_short = peer.ask("POST", "/flush_cache?timeout=0.1")
        enough = pool.submit(peer.ask, "POST", "/flush_cache?timeout=500")
        time.sleep(0.05)
        waited = not enough.done()
        last = running.rest().chunks[-1]
        flushed = enough.result(LIMIT_S)
    facts = {"waited": str(waited), "end": str(last["meta_info"]["finish_reason"]["type"])}
    for name, reply in (("at once", at_once), ("too short", too_short), ("enough", flushed)):
        facts |= {f"{name} {k}": v for k, v in facts_of(reply).items()}
    return facts


def health_while_busy(peer: Peer) -> Facts:
    """Ask for the health of a server that decodes."""
    with peer.streaming(native(PROMPT, LONG_TOKENS)) as running:
        reply = peer.ask("GET", "/health")
        peer.ask("POST", "/abort_request", {"abort_all": True})
        running.rest()
    return facts_of(reply)


SCENES: dict[str, Scene] = {
    scene.__name__.replace("_", " "): scene
    for scene in (
        abort_of_a_stream,
        abort_of_a_chat,
        abort_of_a_whole_reply,
        abort_of_a_whole_chat,
        abort_by_the_start_of_an_id,
        abort_of_a_waiting_request,
        same_id_twice,
        client_leaves,
        whole_client_leaves,
        flush_while_busy,
        health_while_busy,
    )
}


def _slow(tokens: int) -> Json:
    """Return a request that drafts cannot hasten much: its text is drawn at random."""
    body = native(PROMPT, tokens)
    return {**body, "sampling_params": {**body["sampling_params"], "temperature": 1.0}}


def _aborted(peer: Peer) -> int:
    page = peer.ask("GET", "/metrics").body.decode()
    found = re.findall(r"^sglang:num_aborted_requests_total\{.*\} (\S+)$", page, re.MULTILINE)
    return int(sum(map(float, found)))


def _wait_until_busy(peer: Peer) -> None:
    until_s = time.monotonic() + LIMIT_S
    while peer.ask("POST", "/flush_cache").status == 200:
        assert time.monotonic() < until_s, f"{peer.name} did not start the request"
