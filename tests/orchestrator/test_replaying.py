"""`replay` answers from a log of completions or a recording, as a user types it."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.emulated.text import Kind, TargetStream
from orchestrator.cli import app
from orchestrator.exit_codes import BAD_INPUT
from sweeps.replay.recording import Circumstances, Recording
from sweeps.replay.streams import Stream
from sweeps.results import Phase

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of code-like completions."""
    path = tmp_path_factory.mktemp("log") / "completions.jsonl"
    texts = (TargetStream(n, Kind.CODE).window(0, 400) for n in range(10))
    path.write_text("".join(json.dumps({"output_ids": ids}) + "\n" for ids in texts))
    return path


def replay(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *map(str, words)])
    return done.exit_code, done.output


def test_every_setting_has_its_accept_length_and_break_even(log: Path) -> None:
    code, told = replay(log, "--draft-tokens", "2-3,8", "--match", "bfs,prob", "--json")
    assert code == 0
    report = json.loads(told)
    assert (report["requests"], report["output_tokens"], report["emulated"]) == (10, 4000, False)
    found = {(row["draft_tokens"], row["match"]): row for row in report["settings"]}
    assert found.keys() == {(n, match) for n in (2, 3, 8) for match in ("BFS", "PROB")}
    lengths = [found[n, "BFS"]["accept_length"]["value"] for n in (2, 3, 8)]
    assert 1 < lengths[0] < lengths[1] < lengths[2]
    row = found[8, "BFS"]
    assert row["break_even_cycle_in_plain_steps"] == row["accept_length"]["value"]
    assert row["accept_length_cold"]["low"] > 1
    assert row["curve"][-1]["to_tokens"] == 10 * 399


def test_the_page_says_how_long_a_verify_may_take(log: Path) -> None:
    code, told = replay(log, "--draft-tokens", "2", "--plain-tok-s", "100")
    assert code == 0
    assert "10 requests, 4,000 tokens" in told
    assert "break-even" in told
    assert "2 draft tokens gain where a verify step takes less than 1." in told


def test_text_without_repetition_is_hardly_worth_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(list(range(10, 2000))) + "\n")
    code, told = replay(path, "--draft-tokens", "8")
    assert code == 0
    assert "Hardly worth the bother" in told


def test_an_old_version_has_its_window_and_its_match_type_is_inert(log: Path) -> None:
    words = ("--draft-tokens", "4", "--match", "bfs,prob", "--version", "0.5.9", "--json")
    [row] = json.loads(replay(log, *words)[1])["settings"]
    assert (row["depth"], row["match"]) == (12, "BFS")


def test_an_external_corpus_takes_part(log: Path) -> None:
    def accept(*words: str | Path) -> float:
        told = json.loads(replay(log, "--draft-tokens", "4", "--json", *words)[1])
        return float(told["settings"][0]["accept_length"]["value"])

    assert accept("--corpus", log, "--corpus-budget", "2") > accept() + 0.2


def test_a_recording_of_an_emulated_host_is_marked(tmp_path: Path) -> None:
    parts = (Phase.MEASURING.value, Phase.COLD.value)
    streams = tuple(
        Stream((), TargetStream(n).window(0, 200), part=part) for n, part in enumerate(parts)
    )
    path = tmp_path / "a.recording"
    path.write_bytes(Recording(Circumstances("m", emulated=True), streams).as_bytes())
    code, told = replay(path, "--draft-tokens", "2")
    assert code == 0
    assert told.startswith("EMULATED a.recording: 2 requests")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--match", "likely"), "there is no such match type"),
        (("--draft-tokens", "2-x"), "no list of whole numbers"),
        (("--draft-tokens", "0"), "takes none of them"),
        (("--version", "newest"), "it is no version"),
        (("--tokenizer", "none.json"), "--tokenizer"),
    ],
)
def test_bad_options_are_named(log: Path, words: tuple[str, ...], told: str) -> None:
    code, said = replay(log, *words)
    assert code == BAD_INPUT
    assert told in said


def test_a_log_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    code, said = replay(tmp_path / "none.jsonl")
    assert code == BAD_INPUT
    assert "there is no such file" in said


BOM = "\ufeff"
HALF = '{"prompt":"hi","completion":"ok \\ud83d"}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HALF + '\n{"completion":"fine text"}\n', ["line 1", "half a character"]),
        ("[1, 2, 3]\n{\n", ["line 2", "it is no JSON"]),
        ("[1, 2, 3]\n" + "[" * 100_000, ["line 2", "nested too deeply"]),
        ("[1, 2, 3]\n[4, 2147483648]\n", ["line 2", "2147483648"]),
        ('{"completion": "a b"}\n', ["line 1", "--tokenizer"]),
    ],
)
def test_bad_lines_of_a_log_are_named(tmp_path: Path, text: str, told: list[str]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    code, said = replay(path)
    assert code == BAD_INPUT
    said = " ".join(said.split())
    assert all(word in said for word in told), said


def test_a_log_of_windows_and_one_that_is_packed_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    line = BOM + '{"output_ids": [1, 2, 3]}\r\n{"output_ids": [1, 2, 3]}\r\n'
    for data in (line.encode(), gzip.compress(line.encode())):
        path.write_bytes(data)
        code, told = replay(path, "--draft-tokens", "2", "--json")
        assert code == 0
        assert json.loads(told)["requests"] == 2
