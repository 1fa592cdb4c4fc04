"""The small requests of an SGLang server's life: health, information, flush, abort."""

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

from infra.sglang.server_keys import NO_KEYS, ServerKeys

_LONGEST_ANSWER_BYTES = 16 << 20
_FLUSH_LOOK_S = 0.1
_COUNTER = re.compile(
    r"^sglang:(\w+_total)(?:\{[^\n]*\})? (\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b", re.MULTILINE
)


class ControlError(Exception):
    """The server did not answer, or answered with an error."""


class ServerControl:
    """Talks to one server. Every call has a deadline in wall seconds."""

    def __init__(self, url: str, *, answer_s: float = 30.0, keys: ServerKeys = NO_KEYS) -> None:
        self.url = url
        self._answer_s = answer_s
        self._keys = keys

    def is_healthy(self) -> bool:
        """Tell whether the server answers `/health`, for which it generates one token."""
        try:
            self._ask("GET", "/health")
        except ControlError:
            return False
        return True

    def info(self) -> dict[str, object]:
        """Return the resolved settings. Raises ControlError."""
        answer = self._first_of("/server_info", "/get_server_info")
        try:
            data = json.loads(answer)
        except ValueError as error:
            raise ControlError(f"/server_info is no JSON: {error}") from error
        if not isinstance(data, dict):
            raise ControlError("/server_info is no object")
        return data

    def counters(self) -> dict[str, float]:
        """Return the server's counters by their names without prefix; none where it exports none.

        What has several labels, such as ranks, is added up.
        """
        try:
            page = self._ask("GET", "/metrics").decode("utf-8", "replace")
        except ControlError:
            return {}
        found: dict[str, float] = {}
        for name, value in _COUNTER.findall(page):
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def flush(self) -> str:
        """Empty the prefix cache and the n-gram trie; return why that is not proved, if so.

        Raises ControlError if it was refused.
        """
        self._flush_when_idle()
        try:
            return unproved_flush(self.info())
        except ControlError as error:
            return f"the server tells nothing of itself: {error}"

    def _flush_when_idle(self) -> None:
        """Ask again while it is refused: a stream that was cut off takes a moment to end there."""
        until_s = time.monotonic() + self._answer_s
        while True:
            try:
                self._ask("POST", "/flush_cache")
                return
            except ControlError as error:
                if "answered 400" not in str(error) or time.monotonic() > until_s:
                    raise
            time.sleep(_FLUSH_LOOK_S)

    def abort_all(self) -> None:
        """End all running requests; a server that cannot is left alone."""
        try:
            self._ask("POST", "/abort_request", {"rid": "", "abort_all": True})
        except ControlError:
            return

    def _first_of(self, *paths: str) -> bytes:
        """Ask under the first name that exists: the endpoint was renamed after 0.5.5."""
        for path in paths[:-1]:
            try:
                return self._ask("GET", path)
            except ControlError as error:
                if "404" not in str(error):
                    raise
        return self._ask("GET", paths[-1])

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self._keys.header(path)}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with _OPENER.open(request, timeout=self._answer_s) as answer:
                return bytes(answer.read(_LONGEST_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise ControlError(f"{path} answered {error.code}: {error.read(500)!r}") from error
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            raise ControlError(f"{path} did not answer: {error}") from error


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Never through a proxy: the server is on the loopback."""


def unproved_flush(info: Mapping[str, object]) -> str:
    """Say why what a server tells of itself after a flush does not prove it; empty if it does.

    A flush resets the accept length of most servers as well: one that is there proves nothing.
    """
    length = lifetime_accept_length(info)
    return "" if length is None else f"the server still tells an accept length of {length:.3g}"


def lifetime_accept_length(info: Mapping[str, object]) -> float | None:
    """Return the accept length since the start or the last flush; None where none is counted."""
    states = info.get("internal_states")
    for state in states if isinstance(states, list) else []:
        length = state.get("avg_spec_accept_length") if isinstance(state, dict) else None
        if isinstance(length, int | float):
            return float(length)
    return None
