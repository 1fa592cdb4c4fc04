"""What is read from the log of a start: phases, progress, doom; forwards and in bounded steps."""

from pathlib import Path

import pytest

from infra.emulated.life.phase_lines import Graphs, PhaseLines
from infra.sglang.start_log import MOST_BYTES, StartLog, StartPhase

P = StartPhase
HEAD = "[2026-11-30 01:02:03 TP0] "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def _say(path: Path, *lines: str, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("".join(line + end for line in lines))


def _phases(path: Path, *lines: str) -> list[StartPhase]:
    log = StartLog(path)
    seen = [log.phase]
    for line in lines:
        _say(path, line)
        seen += log.look().entered
    return seen


@pytest.mark.parametrize("version", ["0.5.2", "0.5.9", "0.5.13", "0.5.14", "0.5.20", "0.5.23"])
def test_the_phases_of_every_version_come_in_their_order(path: Path, version: str) -> None:
    lines = PhaseLines(version)
    graphs = Graphs((1, 2, 4), 8, 1.0, speculates=True)
    written = [
        "[2026-11-30 01:02:03] server_args=ServerArgs(max_total_num_tokens=8, chunked_prefill_size",
        HEAD + lines.init_begin(),
        HEAD + lines.init_end(1.0, 0.5),
        HEAD + "Load weight begin. avail mem=139.00 GB",
        *(lines.weights_bar(loaded, 64, 0.1 + loaded) for loaded in (0, 32, 64)),
        HEAD + lines.weights_end(9.0, 60.0, 79.0),
        HEAD + lines.kv_cache(1000, 50.0),
        HEAD + "Memory pool end. avail mem=9.00 GB",
        *(HEAD + line for line in lines.graphs_begin(graphs, 9.0)),
        HEAD + lines.graphs_end(graphs, 9.0, 8.0),
        HEAD + "max_total_num_tokens=1000, chunked_prefill_size=8192, max_prefill_tokens=16384",
        "[2026-11-30 01:02:03] INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C)",
        "[2026-11-30 01:02:03] The server is fired up and ready to roll!",
    ]
    assert _phases(path, *written) == list(StartPhase)
    assert StartLog(path).look().entered == tuple(StartPhase)[1:], "all of them in one look as well"


@pytest.mark.parametrize(
    "line",
    [
        "Capture cpu graph begin. This can take up to several minutes.",
        "Capture draft cuda graph begin. This can take up to several minutes. avail mem=4.00 GB",
        "Capture single-CG draft extend begin. This can take several minutes. ",
        "Capture Frozen-KV MTP draft cuda graph begin.",
        "Entering DeepGEMM JIT Pre-Compile session. It may take a long time",
        "Running FlashInfer autotune...",
    ],
)
def test_whatever_is_captured_or_compiled_is_graph_capture(path: Path, line: str) -> None:
    assert _phases(path, HEAD + line) == [P.SPAWN, P.GRAPHS]


def test_words_of_the_command_line_begin_no_phase(path: Path) -> None:
    usage = "                 [--disable-flashinfer-autotune] [--warmups WARMUPS]"
    settings = "server_args=ServerArgs(note='Load weight begin')"
    assert _phases(path, usage, settings) == [P.SPAWN]


def test_a_draft_model_goes_through_the_phases_again_but_nothing_goes_back_from_the_warm_up(
    path: Path,
) -> None:
    again = ["Load weight begin.", "Capture draft cuda graph begin.", "Load weight begin."]
    ready = ["max_total_num_tokens=9, chunked_prefill_size=8", "Entering DeepGEMM warmup"]
    assert _phases(path, *again, *ready) == [P.SPAWN, P.WEIGHTS, P.GRAPHS, P.WEIGHTS, P.WARM_UP]


def test_only_the_first_rank_says_which_phase_it_is(path: Path) -> None:
    assert _phases(
        path,
        "[2026-11-30 01:02:03 TP3] Load weight begin. avail mem=1.00 GB",
        "[2026-11-30 01:02:03 DP0 TP0 EP0] Init torch distributed begin.",
        "[2026-11-30 01:02:03 PP1 TP0] Load weight begin. avail mem=1.00 GB",
    ) == [P.SPAWN, P.DISTRIBUTED_INIT]


def _news(path: Path, *lines: str, end: str = "\n") -> list[bool]:
    log = StartLog(path)
    said = []
    for line in lines:
        _say(path, line, end=end)
        said.append(log.look().says_new)
    return said


def test_a_progress_bar_that_moves_is_progress_and_one_that_stands_is_not(path: Path) -> None:
    bar = "Loading safetensors checkpoint shards: {} Completed | {}/64 [00:{}<01:02,  1.2s/it]"
    moved = [bar.format("0%", 0, "00"), bar.format("2%", 1, "02"), bar.format("2%", 1, "09")]
    assert _news(path, *moved, end="\r") == [True, True, False]


def test_a_bar_without_the_end_of_its_line_counts_as_well(path: Path) -> None:
    assert _news(path, "\rshards: 1/64", "\rshards: 2/64", "", end="") == [True, True, False]


def test_a_line_that_repeats_itself_or_only_waits_is_no_progress(path: Path) -> None:
    assert _news(
        path,
        HEAD + "loading expert 1",
        "[2026-11-30 01:09:09 TP0] loading expert 1",
        HEAD + "loading expert 2",
        "Still waiting for rank 3, 10 s",
        "Still waiting for rank 3, 20 s",
        '[t] INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 503 Service Unavailable',
        "Health check failed. Server couldn't get a response for last 20 seconds.",
        "",
    ) == [True, False, True, True, False, False, False, False]


def test_kernels_that_compile_one_after_another_are_progress(path: Path) -> None:
    shapes = [f"Try DeepGEMM JIT Compiling for <gemm> N={n}, K=7168" for n in (512, 1024, 2048)]
    assert _news(path, *shapes) == [True] * 3


def test_a_line_is_read_when_it_is_whole(path: Path) -> None:
    log = StartLog(path)
    _say(path, HEAD + "Load wei", end="")
    assert not log.look().entered
    _say(path, "ght begin. avail mem=1.00 GB")
    assert log.look().entered
    assert log.phase is P.WEIGHTS


def test_of_a_flood_only_the_end_is_read_and_a_log_that_was_cut_is_read_anew(path: Path) -> None:
    log = StartLog(path)
    assert not log.look().says_new
    line = "x" * 1000
    _say(path, *[line] * (3 * MOST_BYTES // 1000), HEAD + "Load weight begin.")
    assert log.look().entered
    assert log.read_bytes == path.stat().st_size
    path.write_text(HEAD + "Memory pool end. avail mem=1.00 GB\n")
    assert log.look().entered
    assert log.phase is P.MEMORY_POOL


@pytest.mark.parametrize(
    "line",
    [
        "[t TP5] Scheduler hit an exception: Traceback (most recent call last):",
        "[t] ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): in use",
        "[t] Received sigquit from a child process. It usually means the child failed.",
        "[t] SIGQUIT received. signum=3, frame=None. It usually means one child failed.",
    ],
)
def test_the_end_is_announced_and_what_is_around_it_kept(path: Path, line: str) -> None:
    log = StartLog(path)
    _say(path, "before")
    log.look()
    assert not log.doom
    _say(path, line, "ValueError: the cause", *["frame"] * 1000)
    log.look()
    assert log.doom == line
    assert log.last_words[:3] == ("before", line, "ValueError: the cause")
    assert len(log.last_words) < 1000
