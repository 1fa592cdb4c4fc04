"""What is written stays whole, whatever cuts it off, and says so where it does not."""

import errno
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.files import Spool, read_json, write_json
from orchestrator.journal import VERSION, DiskError, read_journal, seal, unseal
from orchestrator.spool import (
    RESULT,
    SAMPLE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    read_spool,
    result_record,
    sample_record,
    trial_record,
)
from sweeps.problems import BadInputError
from tests.orchestrator.disks import small_disk
from tests.sweeps.makers import estimate, ngram, plain, result

RECORDS = [
    {"kind": "phase", "phase": "cold pass", "at_s": n + 0.5, "text": "ä\n" * n} for n in range(6)
]


def _spooled(path: Path) -> Path:
    spool = Spool(path)
    for record in RECORDS:
        spool.append("phase", {n: v for n, v in record.items() if n != "kind"})
    spool.close()
    return path


def _read(path: Path) -> list[dict[str, object]]:
    return [dict(line.data) for line in read_spool(path).records]


def test_a_spool_reads_as_it_was_written_and_every_line_is_json(tmp_path: Path) -> None:
    path = _spooled(tmp_path / "spool.jsonl")
    assert _read(path) == RECORDS
    first, *lines = map(json.loads, path.read_text().splitlines())
    assert first["version"] == VERSION
    assert [{n: v for n, v in line.items() if n != "crc"} for line in lines] == RECORDS


@pytest.mark.slow
def test_cut_anywhere_every_whole_line_before_is_read_and_a_writer_goes_on(tmp_path: Path) -> None:
    content = _spooled(tmp_path / "whole.jsonl").read_bytes()
    path = tmp_path / "spool.jsonl"
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = max(0, content[:cut].count(b"\n") - 1)
        reading = read_spool(path)
        assert [line.data for line in reading.records] == RECORDS[:whole]
        assert reading.bad_lines == ()
        assert reading.is_torn == (cut > 0 and content[cut - 1 : cut] != b"\n")
        spool = Spool(path)
        spool.append("again", {})
        spool.close()
        assert _read(path) == [*RECORDS[:whole], {"kind": "again"}]


@given(st.data())
def test_a_damaged_line_is_named_and_the_rest_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = _spooled(tmp_path_factory.mktemp("spool") / "spool.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    number = data.draw(st.integers(1, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[number]) - 2))
    other = data.draw(st.integers(0, 255).filter(lambda b: b not in (10, lines[number][at])))
    line = bytearray(lines[number])
    line[at] = other
    path.write_bytes(b"".join([*lines[:number], bytes(line), *lines[number + 1 :]]))
    reading = read_spool(path)
    assert reading.bad_lines == (number + 1,)
    assert [line.data for line in reading.records] == RECORDS[: number - 1] + RECORDS[number:]


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), min_size=1))
def test_a_sealed_line_opens_to_what_it_was(data: dict[str, object]) -> None:
    assert unseal(seal(data)[:-1]) == data


def test_a_spool_of_an_older_version_is_read_and_may_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    old = [{"kind": "phase", "phase": "starting"}, {"kind": "stop", "clean": True}]
    path.write_text("".join(json.dumps(line) + "\n" for line in old) + '{"kind": "to')
    assert _read(path) == old
    spool = Spool(path)
    spool.append("more", {})
    spool.close()
    assert _read(path) == [*old, {"kind": "more"}]


def test_a_spool_of_a_newer_version_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    content = seal({"kind": "spool", "version": VERSION + 1}) + b"who knows"
    path.write_bytes(content)
    for read in (read_spool, Spool):
        with pytest.raises(BadInputError, match="a newer release wrote") as caught:
            read(path)
        assert len(str(caught.value).splitlines()) == 2
    assert path.read_bytes() == content


def test_a_spool_suffices_for_the_result(tmp_path: Path) -> None:
    ended = result(3, ngram(4), 50.0)
    who = SpooledTrial("t-0003", 3, ngram(4), "search", "gpu1", emulated=True)
    sample = SpooledSample(1.5, 7, 10.0, None, 11.0, 2.5)
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append(TRIAL, trial_record(who))
    spool.append(SAMPLE, sample_record(sample))
    spool.append(RESULT, result_record(ended))
    spool.close()
    reading = read_spool(tmp_path / "spool.jsonl")
    assert (reading.trial, reading.samples(), reading.result) == (who, (sample,), ended)


def test_a_spool_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    reading = read_spool(tmp_path / "none")
    assert (reading.records, reading.trial, reading.result, reading.is_torn) == (
        (),
        None,
        None,
        False,
    )


def test_what_json_cannot_say_is_refused_and_leaves_no_line(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        spool.append("phase", {"at_s": float("nan")})
    spool.append("phase", {"at_s": 1.0})
    spool.close()
    assert _read(tmp_path / "spool.jsonl") == [{"kind": "phase", "at_s": 1.0}]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("inf")})
    assert [path.name for path in tmp_path.iterdir()] == ["spool.jsonl"]


def test_a_result_is_read_as_data_only(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for odd in ("", "{", "[1]", "\0", "cos\nsystem\n(S'true'\ntR."):
        path.write_text(odd)
        assert read_json(path) is None
    path.write_bytes(b"\xff\xfe")
    assert read_json(path) is None


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 64 KiB."""
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def test_a_full_disk_leaves_whole_lines_and_says_which_file(full_disk: Path) -> None:
    path = full_disk / "spool.jsonl"
    spool = Spool(path)
    kept = 0
    with pytest.raises(DiskError, match=r"spool\.jsonl cannot be written: No space left") as caught:
        for number in range(10_000):
            spool.append("phase", {"n": number, "text": "x" * 700})
            kept += 1
    assert caught.value.errno == errno.ENOSPC
    assert kept > 10
    with pytest.raises(DiskError, match="No space left"):
        write_json(full_disk / "result.json", {"text": "x" * 100_000})
    assert [path.name for path in full_disk.iterdir()] == ["spool.jsonl"]
    spool.close()
    reading = read_spool(path)
    assert len(reading.records) == kept
    assert not reading.is_torn


def test_an_old_result_outlives_a_full_disk(full_disk: Path) -> None:
    write_json(full_disk / "result.json", {"old": 1})
    with pytest.raises(DiskError):
        write_json(full_disk / "result.json", {"text": "x" * 100_000})
    assert read_json(full_disk / "result.json") == {"old": 1}


_LIMITED = """
import resource, signal, sys
from pathlib import Path
from orchestrator.files import Spool
from orchestrator.journal import DiskError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
spool = Spool(Path(sys.argv[1]))
try:
    for number in range(1000):
        spool.append("phase", {"n": number, "text": "x" * 300})
except DiskError as error:
    sys.exit(f"{number} {error}")
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on files here")
def test_a_write_that_ends_halfway_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    ended = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(path)], capture_output=True, text=True, check=False
    )
    count, _, said = ended.stderr.strip().partition(" ")
    assert said == f"{path} cannot be written: File too large"
    reading = read_spool(path)
    assert len(reading.records) == int(count) > 5
    assert not reading.is_torn


def test_files_are_private(tmp_path: Path) -> None:
    path = _spooled(tmp_path / "spool.jsonl")
    assert path.stat().st_mode & 0o077 == 0


def test_an_estimate_and_a_plain_trial_come_back_from_a_spool(tmp_path: Path) -> None:
    ended = result(0, plain(), 20.0)
    ended.estimates["ttft_s"] = estimate(0.2, None)
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append(RESULT, result_record(ended))
    spool.close()
    assert read_spool(tmp_path / "spool.jsonl").result == ended
    assert read_journal(tmp_path / "spool.jsonl").version == VERSION
