"""YAML as the programs that start containers read it, which differ in what a bare word is.

Compose reads YAML 1.2, kubectl 1.1: `yes`, `0x10` and `1e5` are a text to one and none to the
other. Such a word is kept as `Bare`, for whoever knows what its program makes of it.
"""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sweeps.exporters.launches import UnreadableExportError

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d*[1-9])?")
_LIKE_A_NUMBER = re.compile(
    r"[-+]?(\.\d[\d_]*|\d[\d_]*(\.[\d_]*)?)(e[-+]?\d+)?|0[xob][\da-f_]+|[-+]?\.(inf|nan)", re.I
)
_DEPTH = 4
_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Bare:
    """A word without quotes that may be a number, a truth value or a date."""

    text: str

    @property
    def as_written(self) -> str | None:
        """Return the text that every program makes of it; None where they differ."""
        same = self.text in ("true", "false") or _NUMBER.fullmatch(self.text)
        return self.text if same else None


def objects(text: str) -> list[Any]:
    """Return the documents of a file, with no object of a program's own made.

    Raises: UnreadableExportError.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            twice = [name for name in names if names.count(name) > 1 and name != "<<"]
            if twice:
                raise UnreadableExportError(f"the key {twice[0]} stands twice in it")
            return super().construct_mapping(node, deep=deep)

    def bare(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Bare:
        return Bare(str(node.value))

    def text_or_bare(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str | Bare:
        value = str(node.value)
        return Bare(value) if node.style is None and _LIKE_A_NUMBER.fullmatch(value) else value

    for kind in ("bool", "int", "float", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", bare)
    Loader.add_constructor("tag:yaml.org,2002:str", text_or_bare)
    try:
        return [one for one in yaml.load_all(text, Loader) if one is not None]
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200] or "it is nested too deeply"
        raise UnreadableExportError(f"it is no YAML: {why}") from error


def dumped(documents: list[Any]) -> str:
    """Write documents in which every program reads a text as one."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes what any of the programs could take for a number or a truth value."""

    def text(dumper: yaml.SafeDumper, given: str) -> yaml.ScalarNode:
        is_bare = bool(_LIKE_A_NUMBER.fullmatch(given)) or given.lower() in ("y", "n")
        style = "'" if is_bare else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", given, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=100).rstrip("\n")


def mapping(given: Any, what: str) -> dict[str, Any]:
    """Return a mapping with texts as keys, an empty one for nothing.

    Raises: UnreadableExportError.
    """
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UnreadableExportError(f"{what} is no mapping")
    return {key.text if isinstance(key, Bare) else str(key): value for key, value in given.items()}


def items(given: Any, what: str) -> list[Any]:
    """Return a list, an empty one for nothing. Raises UnreadableExportError."""
    if given is None:
        return []
    if not isinstance(given, list):
        raise UnreadableExportError(f"{what} is no list")
    return given


def texts(given: Any, what: str) -> list[str]:
    """Return a list of texts; a bare number is none. Raises UnreadableExportError."""
    found = items(given, what)
    for item in found:
        if not isinstance(item, str):
            raise UnreadableExportError(f"{what} holds {shown(item)}, no text: put it into quotes")
    return found


def shown(given: Any) -> str:
    """Write a value as messages show it."""
    if given is None:
        return "nothing"
    text = given.text if isinstance(given, Bare) else plain(given)
    text = text if isinstance(text, str) else str(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(given: Any, depth: int = _DEPTH) -> Any:
    """Return a value with bare words as they are written; what is large or deep is cut."""
    if isinstance(given, Bare):
        return given.text
    if not isinstance(given, (dict, list)):
        return given
    if not depth:  # a few aliases can stand for more than there is room for
        return "..."
    if isinstance(given, dict):
        some = islice(given.items(), _WIDTH)
        return {plain(key): plain(value, depth - 1) for key, value in some}
    return [plain(item, depth - 1) for item in given[:_WIDTH]]
