"""Which lines of a log a reason quotes."""

from infra.sglang.quoting import LONGEST_LINE, last_lines, telling_lines, with_quotes

CAPTURE = """\
[2026-01-01 00:00:00 TP0] Capture cuda graph begin. avail mem=9.00 GB
[2026-01-01 00:00:01 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/model_executor/cuda_graph_runner.py", line 300, in __init__
    self.capture()
    ^^^^^^^^^^^^^^
RuntimeError: CUDA error: operation not permitted when stream is capturing
Exception: Capture cuda graph failed: operation not permitted when stream is capturing
Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
[2026-01-01 00:00:02] INFO:     127.0.0.1:9 - "GET /health HTTP/1.1" 503 Service Unavailable
[2026-01-01 00:00:02] Received sigquit from a child process. It usually means the child failed.
[2026-01-01 00:00:02] kill_process_tree called: parent_pid=9, include_parent=True""".splitlines()


def test_a_reason_quotes_who_failed_and_what_it_raised_beside_what_it_says() -> None:
    told = with_quotes("graph capture failed: operation not permitted when stream is capturing",
                       CAPTURE)  # fmt: skip
    assert told == (
        "graph capture failed: operation not permitted when stream is capturing; its log:"
        " TP3: Scheduler hit an exception |"
        " RuntimeError: CUDA error: operation not permitted when stream is capturing |"
        " Exception: Capture cuda graph failed: operation not permitted when stream is capturing"
    )


def test_of_many_lines_about_faults_the_first_and_the_last_are_quoted() -> None:
    lines = [f"worker {n} failed" for n in range(9)]
    assert telling_lines(lines) == ["worker 0 failed", "worker 1 failed", "worker 8 failed"]


def test_nothing_is_quoted_twice() -> None:
    lines = ["[2026-01-01 00:00:00 TP1] ValueError: no room", "no room"]
    assert with_quotes("settings refused: no room", lines) == "settings refused: no room"


def test_without_a_word_about_faults_the_last_lines_are_quoted() -> None:
    lines = ["a", "b", "", "  ", "c", "c", "d"]
    assert telling_lines(lines) == last_lines(lines) == ["b", "c", "d"]
    assert telling_lines([]) == []
    assert with_quotes("it ended", []) == "it ended"


def test_lines_are_cut_and_hold_nothing_that_moves_a_cursor() -> None:
    [line] = last_lines(["\x1b[31mbad\x07\u202e" + "x" * 1000])
    assert line.isprintable()
    assert len(line) == LONGEST_LINE
