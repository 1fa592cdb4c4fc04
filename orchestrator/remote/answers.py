"""Reads what a host answers. Whatever ours would not say ends in one error that names the host."""

import json
from typing import Any

from infra.remote import RemoteError

_SHOWN_CHARS = 80


class BadAnswerError(RemoteError):
    """A host answers what ours does not; trying again helps nothing."""


def read_answer(host: str, verb: str, text: bytes) -> dict[str, Any]:
    """Return an answer, or one line of it, in the form of its verb. Raises BadAnswerError."""
    from pydantic import ValidationError

    from orchestrator.remote.answer_forms import FORMS

    try:
        answer: dict[str, Any] = json.loads(text)
        FORMS[verb].validate_python(answer)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, found["loc"]))[:_SHOWN_CHARS]
        raise bad_answer(host, f"{place!r}: {found['msg']}") from error
    except (ValueError, RecursionError) as error:
        shown = text[:_SHOWN_CHARS].decode(errors="replace")
        raise bad_answer(host, f"{shown!r} is no JSON that can be read") from error
    return answer


def bad_answer(host: str, why: str) -> BadAnswerError:
    """Return the one error for what ours would not say."""
    mend = f"`python -m orchestrator hosts prepare {host}` renews ours there"
    return BadAnswerError(f"{host} answers what ours does not: {why}. {mend}")
