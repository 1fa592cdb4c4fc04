"""Small requests to a server: what is taken from its answers, and when a flush is believed."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.sglang.control import (
    ControlError,
    ServerControl,
)

INFO: dict[str, object] = {"tp_size": 8, "nested": {}, "internal_states": [{}]}


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.info: dict[str, object] = INFO
        self.flush_status = self.info_status = 200
        self.old_names = False
        self.metrics: str | None = None
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/metrics" and self.server.metrics is not None:
            self._send(200, self.server.metrics.encode())
            return
        known = "/get_server_info" if self.server.old_names else "/server_info"
        self._answer(self.server.info_status if self.path == known else 404, self.server.info)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(self.path)
        self._answer(self.server.flush_status, "Flush cache failed.")

    def _answer(self, status: int, data: object) -> None:
        self._send(status, json.dumps(data).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[_Server]:
    """Serve on a free port."""
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def _control(server: _Server) -> ServerControl:
    return ServerControl(f"http://127.0.0.1:{server.server_port}", answer_s=2.0)


def test_information_is_asked_under_the_old_name_where_the_new_is_unknown(server: _Server) -> None:
    assert _control(server).info() == INFO
    server.old_names = True
    assert _control(server).info() == INFO
    assert server.asked == ["/server_info", "/server_info", "/get_server_info"]


def test_a_flush_is_proved_by_no_accept_length_after_it(server: _Server) -> None:
    assert _control(server).flush() == ""
    server.info = {"internal_states": [{"avg_spec_accept_length": None}]}
    assert _control(server).flush() == ""
    server.info = {"internal_states": [{"avg_spec_accept_length": 2.5}]}
    assert _control(server).flush() == "the server still tells an accept length of 2.5"


def test_a_flush_without_an_account_after_it_is_not_proved(server: _Server) -> None:
    server.info_status = 500
    assert "the server tells nothing of itself" in _control(server).flush()


def test_a_refused_flush_says_so(server: _Server) -> None:
    server.flush_status = 400
    with pytest.raises(ControlError, match=r"400.*Flush cache failed"):
        _control(server).flush()


METRICS = """# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m",dp_rank="0"} 1.5e+02
sglang:generation_tokens_total{model_name="m } 7",dp_rank="1"} 12.0
sglang:spec_verify_calls_total 40.0
sglang:gen_throughput{model_name="m"} 99.0
sglang:broken_total{model_name="m"} NaN
"""


def test_counters_are_added_up_over_their_labels_and_none_where_none_are_exported(
    server: _Server,
) -> None:
    assert _control(server).counters() == {}
    server.metrics = METRICS
    counted = {"generation_tokens_total": 162.0, "spec_verify_calls_total": 40.0}
    assert _control(server).counters() == counted


def test_nobody_there_is_unhealthy_and_an_error(server: _Server) -> None:
    control = _control(server)
    server.shutdown()
    server.server_close()
    assert not control.is_healthy()
    with pytest.raises(ControlError, match="did not answer"):
        control.info()
