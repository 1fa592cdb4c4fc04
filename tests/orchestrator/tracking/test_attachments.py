"""Which files of a trial are kept, and how much of them."""

from pathlib import Path

from orchestrator.tracking.attachments import attachments


def test_small_files_as_they_are_and_long_ones_by_their_end(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "trial", tmp_path / "scratch"
    (folder / "deeper").mkdir(parents=True)
    scratch.mkdir()
    (folder / "plan.json").write_text("{}")
    (folder / "server.log").write_text("".join(f"line {n}\n" for n in range(100)))
    (folder / "link").symlink_to(folder / "plan.json")
    plan, log = attachments(folder, scratch, max_bytes=50)
    assert plan == folder / "plan.json"
    assert log.name == "server.log"
    head, *kept = log.read_text().splitlines()
    assert kept == [f"line {n}" for n in range(94, 100)]
    left_out = sum(len(f"line {n}\n") for n in range(94))
    assert head == f"[the first {left_out} bytes are left out]"


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert list(attachments(tmp_path / "none", tmp_path)) == []
