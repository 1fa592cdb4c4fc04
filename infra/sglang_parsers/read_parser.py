"""A program of its own: builds the argument parser of an unpacked SGLang, without its dependencies.

`read_parser.py FOLDER --write FILE` writes every option as JSON. `read_parser.py FOLDER --parse
WORD...` parses a command line as the server does, exit code included. What SGLang imports but takes
no argument from has an inert stand-in here, so that any interpreter serves every version; msgspec
is real, since newer versions keep their fields in it.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import sys
import types
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

STANDING_IN = frozenset({
    "IPython", "PIL", "aiohttp", "compressed_tensors", "dill", "einops", "fastapi", "flashinfer",
    "gguf", "huggingface_hub", "jinja2", "llguidance", "numpy", "nvidia", "openai",
    "openai_harmony", "orjson", "outlines", "packaging", "partial_json_parser", "psutil",
    "pybase64", "pydantic", "pydantic_core", "requests", "safetensors", "sentencepiece",
    "setproctitle", "sgl_kernel", "starlette", "tiktoken", "tokenizers", "torch", "torchao",
    "torchvision", "tqdm", "transformers", "triton", "typing_extensions", "uvicorn", "uvloop",
    "xgrammar", "zmq",
})  # fmt: skip
"""Top-level packages; any other that is missing stays missing, as on a host without it."""

CUT = (
    "sglang.lang",
    "sglang.kernels.ops.attention",
    "sglang.srt.distributed",
    "sglang.srt.layers",
    "sglang.srt.sampling",
    "sglang.srt.utils.hf_transformers",
    "sglang.srt.utils.hf_transformers_utils",
)
"""Parts of SGLang that run kernels and models; the argument definitions take no value of them."""

ABSENT = {"torch": frozenset({"npu"})}
"""Attributes whose mere presence SGLang takes for the hardware."""


class _Nothing(ABCMeta):
    """The class of a stand-in: it may be called, indexed, decorated with and subclassed."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _nothing(f"{cls.__name__}.{name}")
        setattr(cls, name, made)
        return made

    def __call__(cls, *args: object, **named: object) -> object:
        if "stands_in" not in cls.__dict__:
            return type.__call__(cls, *args, **named)
        decorates = len(args) == 1 and not named and isinstance(args[0], types.FunctionType | type)
        return args[0] if decorates else cls

    def register(cls, *args: object, **named: object) -> object:  # type: ignore[override]  # any API
        return cls

    def __getitem__(cls, key: object) -> object:
        return cls

    def __setitem__(cls, key: object, value: object) -> None: ...

    def __iter__(cls) -> Iterator[object]:
        return iter(())

    def __or__(cls, other: object) -> object:  # type: ignore[override]  # a type in annotations
        return cls

    def __ror__(cls, other: object) -> object:  # type: ignore[override]  # a type in annotations
        return cls

    def __lt__(cls, other: object) -> bool:
        return False

    def __contains__(cls, other: object) -> bool:
        return False

    def __int__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return False


def _take_anything(self: object, *args: object, **named: object) -> None: ...


def _inherit_anything(cls: type, /, **named: object) -> None: ...


def _nothing(name: str) -> object:
    members: dict[str, object] = {"stands_in": True, "__init__": _take_anything}
    members["__init_subclass__"] = classmethod(_inherit_anything)
    return _Nothing(name, (), members)


class _StandIn(ModuleType):
    """A module in which every name is found."""

    def __getattr__(self, name: str) -> object:
        if name == "__version__":
            return "99.0.0"  # newer than whatever is asked for
        if name.startswith("__") or name in ABSENT.get(self.__name__, ()):
            raise AttributeError(name)
        made = _nothing(name)
        setattr(self, name, made)
        return made


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for what stands above."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the listed packages and for the parts that are cut."""
        cut = any(fullname == part or fullname.startswith(f"{part}.") for part in CUT)
        if not cut and fullname.partition(".")[0] not in STANDING_IN:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the stand-in."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


def real_parser(folder: str) -> argparse.ArgumentParser:
    """Build the parser from the definitions in a folder that holds `sglang` and `msgspec`."""
    sys.meta_path.insert(0, StandIns())
    sys.path.insert(0, folder)
    package = ModuleType("sglang")  # its own __init__ would load the whole front end
    package.__path__ = [f"{folder}/sglang"]
    sys.modules["sglang"] = package
    module = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser(prog="sglang serve")
    module.ServerArgs.add_cli_args(parser)
    return parser


def described(action: argparse.Action) -> dict[str, object]:
    """Return what is to be known of an option, as plain data."""
    kind = getattr(action.type, "__name__", None) if action.type is not None else None
    # Some come out of a set, in an order that no two processes share.
    choices = None if action.choices is None else sorted(map(str, action.choices))
    return {
        "names": list(action.option_strings),
        "dest": action.dest,
        "action": type(action).__name__.strip("_"),
        "kind": kind,
        "choices": choices,
        "default": _plain(action.default),
        "many": action.nargs in ("*", "+"),
    }


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def main(folder: str, order: str, words: Sequence[str]) -> int:
    """Write the options to a file, or parse a command line; argparse itself exits with 2."""
    parser = real_parser(folder)
    match order:
        case "--write":
            found = [described(action) for action in parser._actions]
            Path(words[0]).write_text(json.dumps(found, indent=1) + "\n")
        case "--parse":
            parser.parse_args(words)
        case _:
            parser.error(f"unknown order: {order}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
