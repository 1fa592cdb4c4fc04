"""What the project is made of: pinned by hash, resolving what is asked for, and without secrets."""

import re
import tomllib
from pathlib import Path

import pytest
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.slack import SlackDetector
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.attacks import attack

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
DETECTORS = (
    AWSKeyDetector(), GitHubTokenDetector(), GitLabTokenDetector(), JwtTokenDetector(),
    OpenAIDetector(), PrivateKeyDetector(), PypiTokenDetector(), SlackDetector(),
)  # fmt: skip
SCANNED = ("sweeps", "orchestrator", "infra", "search_spaces", "bench", "tests")


def _entries(lock: Path) -> list[str]:
    text = "\n".join(line for line in lock.read_text().splitlines() if not _is_comment(line))
    return re.split(r"\n(?=[A-Za-z0-9])", text.strip())


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") or not line.strip()


def _pins(lock: Path) -> dict[str, Version]:
    return {canonicalize_name(n): Version(v) for n, v in PIN.findall(lock.read_text())}


@attack("16: another file in the place of a locked package")
@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_one_version_with_hashes(lock: Path) -> None:
    loose = [e for e in _entries(lock) if not PIN.match(e) or "--hash=sha256:" not in e]
    assert loose == []


@pytest.mark.parametrize("minor", ["3.11", "3.12"])
def test_the_lock_resolves_what_the_project_asks_for(minor: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    pins = _pins(ROOT / "requirements" / f"py{minor}.txt")
    for text in asked:
        requirement = Requirement(text)
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), f"{text}: {version}"


def test_no_secret_is_in_the_source() -> None:
    paths = [path for folder in SCANNED for path in (ROOT / folder).rglob("*.py")]
    texts = {path: path.read_text() for path in paths}
    found = [
        f"{path.relative_to(ROOT)}: {detector.secret_type}"
        for detector in DETECTORS
        for path, text in texts.items()
        if any(detector.analyze_string(text))
    ]
    assert found == []


def test_a_secret_would_be_found() -> None:
    token = "ghp_" + 36 * "a"
    assert any(any(detector.analyze_string(f'token = "{token}"')) for detector in DETECTORS)


@attack("16: a source distribution that runs a program in `make setup`")
def test_setup_takes_wheels_alone() -> None:
    """A source distribution would run a program of its own."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if re.search(r"pip (install|sync)", line)]
    assert len(installs) == 3
    for line in installs:
        ours = line.rstrip().endswith("--editable .")
        assert ours or re.search(r"--only-binary :all:|--no-build(?!-)", line), line
