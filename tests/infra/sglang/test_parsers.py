"""The flag table against the argument parsers of real versions of SGLang."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from infra.sglang.flags import FLAGS, NEUTRAL
from infra.sglang_cpu.layout import DEFAULT_ENV, EnvLayout
from infra.sglang_parsers.build import CHECKED, DEFAULT_ROOT, parse, parser_dump
from infra.sglang_parsers.compare import MEANT, differences, unexpected
from infra.sglang_parsers.dumps import Dump, option_of, read_dump
from tests.e2e.sweeping import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REAL_PARSER = """
import argparse, json, sys
sys.path.insert(0, sys.argv[1])
from read_parser import described
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(prog="sglang serve")
ServerArgs.add_cli_args(parser)
with open(sys.argv[2], "w") as file:
    json.dump([described(action) for action in parser._actions], file)
"""


@pytest.fixture(scope="module")
def dumps() -> dict[str, Dump]:
    """Return what each checked version says, fetched where it is not there yet."""
    return {version: parser_dump(version, ROOT / DEFAULT_ROOT, print) for version in CHECKED}


@pytest.mark.parametrize("version", CHECKED)
def test_the_table_and_the_parser_say_the_same(dumps: dict[str, Dump], version: str) -> None:
    assert unexpected(differences(version, dumps[version])) == []


def test_each_difference_that_is_meant_is_there(dumps: dict[str, Dump]) -> None:
    found = [d for version, dump in dumps.items() for d in differences(version, dump)]
    for meant in MEANT:
        covered = {difference.flag for difference in found if meant.covers(difference)}
        assert covered == set(meant.flags), meant.reason


def test_a_wrong_row_is_found(dumps: dict[str, Dump]) -> None:
    dump = dumps["0.5.9"]
    late = {"speculative_ngram_max_trie_depth": FLAGS["speculative_ngram_branch_length"]}
    assert [d.aspect for d in unexpected(differences("0.5.9", dump, late))] == ["exists"]
    wrong = {"page_size": FLAGS["watchdog_timeout"], "max_prefill_tokens": FLAGS["page_size"]}
    aspects = [(d.flag, d.aspect) for d in unexpected(differences("0.5.9", dump, wrong))]
    assert aspects == [
        ("page_size", "type"), ("page_size", "default"), ("max_prefill_tokens", "default"),
    ]  # fmt: skip


def test_every_neutral_name_becomes_an_option_of_its_versions(dumps: dict[str, Dump]) -> None:
    for name, spellings in NEUTRAL.items():
        for version, dump in dumps.items():
            known = [s.flag for s in spellings if option_of(dump, s.flag) is not None]
            assert known, f"{name} has no spelling in {version}"


@pytest.mark.parametrize(
    ("version", "words", "says"),
    [
        ("0.5.23", ("--speculative-ngram-branch-length", "8"), "unrecognized arguments"),
        ("0.5.12", ("--speculative-ngram-max-match-window-size", "8"), "unrecognized arguments"),
        ("0.5.9", ("--speculative-ngram-max-trie-depth", "8"), "unrecognized arguments"),
        ("0.5.9", ("--speculative-algorithm", "NGARM"), "invalid choice"),
        ("0.5.23", ("--page-size", "four"), "invalid int value"),
        # A flag that is gone is taken for the start of another, or of two.
        ("0.5.23", ("--cuda-graph-max-bs", "8"), "ambiguous option"),
    ],
)
def test_a_refused_flag_ends_with_code_2(
    dumps: dict[str, Dump], version: str, words: tuple[str, ...], says: str
) -> None:
    done = parse(version, ("--model-path", "m", *words), ROOT / DEFAULT_ROOT)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr


def test_a_shortened_flag_passes_the_parser_though_it_is_no_flag(dumps: dict[str, Dump]) -> None:
    words = ("--model-path", "m", "--speculative-num-draft", "9")
    assert "--speculative-num-draft" not in dumps["0.5.23"]
    assert parse("0.5.23", words, ROOT / DEFAULT_ROOT).returncode == 0


def test_stand_ins_change_nothing_that_the_real_packages_say(
    dumps: dict[str, Dump], tmp_path: Path
) -> None:
    env = EnvLayout(ROOT / DEFAULT_ENV)
    if not env.python.exists():
        pytest.skip("the environment of the real SGLang is not built")
    written = tmp_path / "options.json"
    done = subprocess.run(
        [str(env.python), "-c", REAL_PARSER, str(ROOT / "infra/sglang_parsers"), str(written)],
        env={
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "CUDA_HOME": "/nonexistent",
            "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(written.read_text())
    assert read_dump(written) == dumps["0.5.23"]
