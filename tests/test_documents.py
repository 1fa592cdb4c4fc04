"""What the documents name is there: files, symbols, commands, links."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from orchestrator.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / name for name in ("README.md", "DECISIONS.md", "CHANGELOG.md", "docs/security.md")
]
PACKAGES = ("sweeps", "orchestrator", "infra", "search_spaces")
MADE_LATER = {".sweeps/", ".venv", "hosts.toml"}

TICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
NAME = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
PATH = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|toml)")


def _ticked(document: Path) -> list[str]:
    return TICKED.findall(document.read_text())


def _exists(dotted: str) -> bool:
    """Look for a module, or for a name that its source defines; importing some is slow."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:length])
        source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if source.is_file():
            return len(parts) == length or parts[length] in _defined(source)
    return False


def _defined(source: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.alias(name=name):
                names.add(name)
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_name_and_path_is_there(document: Path) -> None:
    ticked = _ticked(document)
    names = [text for text in ticked if NAME.fullmatch(text) and not (ROOT / text).exists()]
    assert [name for name in names if not _exists(name)] == []
    paths = [text for text in ticked if PATH.fullmatch(text) and text not in MADE_LATER]
    there = [ROOT, ROOT / "search_spaces"]
    assert [p for p in paths if not any((base / p).exists() for base in there)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_there(document: Path) -> None:
    text = document.read_text()
    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    assert set(re.findall(r"python -m orchestrator (\w+)", text)) <= known
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets


def test_the_readme_shows_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"python -m orchestrator {command.callback.__name__}" in text


def test_the_example_of_the_readme_is_a_sound_sweep() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "Sweep(" in block)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["sweep"].problems() == []  # type: ignore[attr-defined] # a Sweep


def test_the_changelog_knows_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
