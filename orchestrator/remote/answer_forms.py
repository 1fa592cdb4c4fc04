"""The form of each answer of ours on a host, by the verb that it answers. Slow to import."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_LATEST_S = 1e11
"""Since the epoch: what is later cannot be shown as a date."""

_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Epoch = Annotated[float, Field(ge=0, le=_LATEST_S, allow_inf_nan=False)]
_Word = Annotated[str, Field(max_length=1000)]


class _Form(BaseModel):
    # Later versions of ours may answer more.
    model_config = ConfigDict(strict=True, extra="ignore")


class _Run(_Form):
    run: _Word


class _Listed(_Run):
    is_running: bool


class _Told(_Listed):
    title: _Word
    who: _Word
    began_s: _Epoch


class _Missing(_Form):
    missing: list[_Word]
    version: _Word
    running: _Told | None


class _LaidOut(_Form):
    run_folder: _Word


class _Runs(_Form):
    runs: list[_Listed]


class _Stop(_Form):
    run: _Told | None
    asked: bool


class _Manifest(_Form):
    files: dict[str, Annotated[list[_Count], Field(min_length=2, max_length=2)]]


class _Snapshot(_Form):
    path: _Word


class _Status(_Form):
    run: _Told | None
    status: dict[str, Any] | None


class _Frame(_Form):
    path: str
    size: _Count
    mtime_ns: _Count


class _Served(_Form):
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    why: str | None = None
    elsewhere: Annotated[str, Field(pattern=r"^https?://[!-~]+$")] | None = None


class _RunNews(_Form):
    kind: Literal["run"]
    run: _Run


class _OutputNews(_Form):
    kind: Literal["output"]
    text: str
    at: _Count


class _StatusNews(_Form):
    kind: Literal["status"]
    status: dict[str, Any]


class _EndNews(_Form):
    kind: Literal["end"]
    code: int | None
    why: str = ""


class _Beat(_Form):
    kind: Literal["beat"]


_News = Annotated[
    _RunNews | _OutputNews | _StatusNews | _EndNews | _Beat, Field(discriminator="kind")
]

FORMS: Mapping[str, TypeAdapter[Any]] = {
    "missing": TypeAdapter(_Missing),
    "lay_out": TypeAdapter(_LaidOut),
    "runs": TypeAdapter(_Runs),
    "stop": TypeAdapter(_Stop),
    "manifest": TypeAdapter(_Manifest),
    "snapshot": TypeAdapter(_Snapshot),
    "status": TypeAdapter(_Status),
    "frames": TypeAdapter(_Frame),
    "serve": TypeAdapter(_Served),
    "follow": TypeAdapter(_News),
}
"""`frames` is the head of each file; `serve` and `follow` tell line by line."""
