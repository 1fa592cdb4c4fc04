"""How SGLang refuses what clients send: which error, with which words."""

import math
from collections.abc import Mapping

import orjson

SAMPLING_FIELDS = (
    "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k",
    "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n",
    "json_schema", "regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens",
    "spaces_between_special_tokens", "no_stop_trim", "stream_interval", "logit_bias",
    "sampling_seed", "custom_params", "beam_width", "watermark", "choice",
)  # fmt: skip
_MISSING = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}


class BadRequestError(Exception):
    """The client asked for what the server refuses; the text is the message to send."""

    kind = "BadRequestError"


class BadOptionError(BadRequestError):
    """Options that exclude each other."""

    kind = "BadRequest"


class UnreadableBodyError(Exception):
    """The body is no object of the right fields; the text is the validation message."""


class BadSamplingError(Exception):
    """The sampling parameters of `/generate` cannot be read; refused before a stream opens."""


def read_body(raw: bytes) -> dict[str, object]:
    """Parse a body. Raises UnreadableBodyError."""
    if not raw:
        raise UnreadableBodyError(validation(_MISSING))
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        detail = {
            "type": "json_invalid",
            "loc": ("body", error.pos),
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": error.msg},
        }
        raise UnreadableBodyError(validation(detail)) from error
    if not isinstance(body, dict):
        detail = {
            "type": "dataclass_type",
            "loc": ("body",),
            "msg": "Input should be a dictionary or an instance of GenerateReqInput",
            "input": body,
        }
        raise UnreadableBodyError(validation(detail))
    return body


def validation(*details: Mapping[str, object]) -> str:
    """Write the message of a body that fails its check."""
    many = "s" if len(details) > 1 else ""
    listed = "".join(f"  {dict(detail)}\n" for detail in details)
    return f"{len(details)} validation error{many}:\n{listed}"


def unreadable(kind: str, *loc: str | int, told: str, given: object) -> UnreadableBodyError:
    """Make the error of one field."""
    detail = {"type": kind, "loc": ("body", *loc), "msg": told, "input": given}
    return UnreadableBodyError(validation(detail))


def check_native(body: Mapping[str, object]) -> None:
    """Check the types of a `/generate` body. Raises UnreadableBodyError."""
    text = body.get("text")
    if text is not None and not isinstance(text, str | list):
        raise UnreadableBodyError(
            validation(
                _wrong_type("string", "text", "str", given=text),
                _wrong_type("list", "text", "list[str]", given=text),
            )
        )
    sampling = body.get("sampling_params")
    if sampling is not None and not isinstance(sampling, dict | list):
        raise UnreadableBodyError(
            validation(
                _wrong_type("list", "sampling_params", "list[dict[str,any]]", given=sampling),
                _wrong_type("dict", "sampling_params", "dict[str,any]", given=sampling),
            )
        )
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        told = "Input should be a valid boolean, unable to interpret input"
        raise unreadable("bool_parsing", "stream", told=told, given=stream)


def check_sampling(sampling: Mapping[str, object]) -> None:
    """Check names and types of native sampling parameters. Raises BadSamplingError."""
    for name, value in sampling.items():
        if name not in SAMPLING_FIELDS:
            known = ", ".join(f"`{field}`" for field in SAMPLING_FIELDS)
            raise BadSamplingError(f"unknown field `{name}`, expected one of {known}")
        wanted = {"temperature": float, "top_p": float, "max_new_tokens": int, "n": int}.get(name)
        if wanted is None or value is None or isinstance(value, bool):
            continue
        if not isinstance(value, int | float):
            kind = f'string "{value}"' if isinstance(value, str) else "sequence"
            raise BadSamplingError(
                f"invalid type: {kind}, expected {'f64' if wanted is float else 'i64'}"
            )
        if wanted is int and isinstance(value, float):
            raise BadSamplingError(f"invalid type: floating point `{value:g}`, expected i64")


def check_chat(body: Mapping[str, object]) -> None:
    """Check a chat body. Raises UnreadableBodyError, BadRequestError."""
    if "messages" not in body:
        raise unreadable("missing", "messages", told="Field required", given=dict(body))
    messages = body["messages"]
    if not isinstance(messages, list):
        raise unreadable(
            "list_type", "messages", told="Input should be a valid list", given=messages
        )
    check_openai(body)
    if not messages:
        raise BadRequestError("Messages cannot be empty.")
    for place, message in enumerate(messages):
        _check_message(place, message)


def check_openai(body: Mapping[str, object]) -> None:
    """Check what the OpenAI routes have in common. Raises UnreadableBodyError, BadRequestError."""
    for name, kind, told in (
        ("temperature", "float_parsing", "number"),
        ("max_tokens", "int_parsing", "integer"),
        ("max_completion_tokens", "int_parsing", "integer"),
        ("n", "int_parsing", "integer"),
    ):
        value = body.get(name)
        if value is not None and not isinstance(value, int | float):
            message = f"Input should be a valid {told}, unable to parse string as a {told}"
            raise unreadable(kind, name, told=message, given=value)
    if body.get("return_meta_info") and body.get("stream"):
        raise BadOptionError(
            "return_meta_info is not supported with streaming. "
            "Please set stream=false when using return_meta_info=true."
        )
    if body.get("logprobs") or body.get("top_logprobs"):
        raise BadRequestError("logprobs are not emulated.")


def temperature_of(sampling: Mapping[str, object]) -> float:
    """Return the temperature. Raises BadRequestError."""
    value = sampling.get("temperature")
    if value is None:
        return 1.0
    assert isinstance(value, int | float)
    if value < 0 or not math.isfinite(value):
        raise BadRequestError(f"temperature must be a non-negative finite number, got {value}.")
    return float(value)


def wrong_message(name: str, kind: str, *loc: str, given: object) -> UnreadableBodyError:
    """Make the error of a body that SGLang reads into a message of its own."""
    inner = ("body", f"function-after[build_struct(), {name}]", *loc)
    told = "Field required" if kind == "missing" else f"Input should be a valid {kind[:-5]}"
    return UnreadableBodyError(
        validation(
            {
                "type": "is_instance_of",
                "loc": ("body", f"is-instance[{name}]"),
                "msg": f"Input should be an instance of {name}",
                "input": given,
            },
            {"type": kind, "loc": inner, "msg": told, "input": given},
        )
    )


def check_ranges(sampling: Mapping[str, object]) -> None:
    """Check the values of sampling parameters. Raises BadRequestError."""
    top_p = sampling.get("top_p")
    if isinstance(top_p, int | float) and not 0 < top_p <= 1:
        raise BadRequestError(f"top_p must be in (0, 1], got {top_p}.")
    top_k = sampling.get("top_k")
    # Greedy sampling looks at no more than the first token, whatever was asked.
    if sampling.get("temperature") != 0 and isinstance(top_k, int) and top_k != -1 and top_k < 1:
        raise BadRequestError(f"top_k must be -1 (disable) or at least 1, got {top_k}.")


def count_of(value: object) -> int | None:
    """Return a number of tokens. Raises BadRequestError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequestError(f"max_new_tokens must be at least 0, got {value}.")
    return value


def _check_message(place: int, message: object) -> None:
    if not isinstance(message, dict):
        raise unreadable("dict_type", "messages", place, told="Input should be a dict", given=None)
    roles = ("system", "user", "assistant", "tool", "function", "developer")
    if "role" not in message:
        raise unreadable("missing", "messages", place, told="Field required", given=message)
    if message["role"] not in roles:
        told = f"Value error, 'role' must be one of {', '.join(roles)}."
        where = ("body", "messages", place)
        raise UnreadableBodyError(
            validation(
                {"type": "value_error", "loc": where, "msg": told, "input": message["role"]},
                {"type": "literal_error", "loc": where, "msg": "Input should be 'user'"},
            )
        )
    if message["role"] == "user" and "content" not in message:
        where = ("body", "messages", place)
        raise UnreadableBodyError(
            validation(
                {"type": "value_error", "loc": where, "msg": "Value error", "input": "user"},
                {"type": "missing", "loc": where, "msg": "Field required", "input": message},
            )
        )


def _wrong_type(kind: str, *loc: str, given: object) -> dict[str, object]:
    names = {"dict": "dictionary"}
    told = f"Input should be a valid {names.get(kind, kind)}"
    return {"type": f"{kind}_type", "loc": ("body", *loc), "msg": told, "input": given}
