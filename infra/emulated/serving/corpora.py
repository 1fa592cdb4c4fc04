"""The external corpora of an n-gram server: texts that it drafts from without having written them.

Sources: SGLang 0.5.23, srt/managers/tokenizer_control_mixin.py and
srt/speculative/cpp_ngram/external_corpus.py.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from infra.emulated.engine import EmulatedEngine
from infra.emulated.serving.replies import Json
from infra.emulated.text import tokenize

_FIELDS = ("corpus_id", "file_path", "documents")


class CorpusError(Exception):
    """A corpus is refused; the text is the message to send."""


class Corpora:
    """The corpora that are loaded, by name."""

    def __init__(self, engine: EmulatedEngine) -> None:
        self._engine = engine
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the tokens of each."""
        return dict(self._counts)

    def load_file(self, path: str) -> None:
        """Load the corpus that a server starts with. Raises CorpusError."""
        self._load(path, self._documents(path))

    def add(self, body: Mapping[str, object]) -> Json:
        """Load a corpus from a request. Raises CorpusError; TypeError for a field unknown."""
        for name in body:
            if name not in _FIELDS:
                raise TypeError(f"Unexpected keyword argument '{name}'")
        if not self._engine.drafts_from_corpora:
            raise CorpusError("Ngram speculative decoding is not enabled.")
        name = str(body.get("corpus_id") or uuid.uuid4().hex)
        path, documents = body.get("file_path"), body.get("documents")
        note = ""
        if path is not None:
            loaded = self._documents(str(path))
        elif isinstance(documents, list):
            loaded, note = self._limited([tokenize(text) for text in documents if text])
        else:
            raise CorpusError("Either file_path or documents must be provided.")
        tokens = self._load(name, loaded)
        return {
            "success": True,
            "corpus_id": name,
            "message": f"Loaded corpus '{name}' with {tokens} tokens.{note}",
            "loaded_token_count": tokens,
        }

    def remove(self, name: str) -> str:
        """Forget a corpus; nothing happens if there is none. Raises CorpusError."""
        if not self._engine.drafts_from_corpora:
            raise CorpusError("Ngram speculative decoding is not enabled.")
        if self._counts.pop(name, None) is not None:
            self._engine.remove_corpus(name)
        return f"Removed corpus '{name}'."

    def _load(self, name: str, documents: Sequence[Sequence[int]]) -> int:
        if name in self._counts:
            raise CorpusError(
                f"External corpus '{name}' already exists. "
                "Remove it before adding a new corpus with the same id."
            )
        tokens = sum(map(len, documents)) + max(0, len(documents) - 1)
        if not tokens:
            raise CorpusError("External corpus is empty — no tokens were loaded.")
        self._engine.add_corpus(name, documents)
        self._counts[name] = tokens
        return tokens

    def _limited(self, documents: Sequence[list[int]]) -> tuple[list[list[int]], str]:
        """Cut what is beyond the limit, and say so."""
        limit = self._engine.settings.corpus_limit_tokens
        kept: list[list[int]] = []
        total = 0
        for document in filter(None, documents):
            total += len(document) + bool(kept)
            if total > limit:
                return kept, f" (truncated: exceeded {limit} token limit)"
            kept.append(document)
        return kept, ""

    def _documents(self, path: str) -> list[list[int]]:
        """Read a file of one JSON string a line; one that is too long is refused."""
        if not Path(path).is_file():
            raise CorpusError(f"External ngram corpus path does not exist: {path}")
        documents = [tokenize(text) for text in _lines(Path(path))]
        kept, note = self._limited(documents)
        if note:
            limit = self._engine.settings.corpus_limit_tokens
            raise CorpusError(
                f"External ngram corpus exceeds the configured token limit ({limit})."
            )
        return kept


def _lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)
        except ValueError as error:
            raise CorpusError(
                f"Invalid JSON in external ngram corpus at line {number}: {error}"
            ) from error
        if not isinstance(text, str):
            raise CorpusError(
                f"Invalid external ngram corpus record at line {number}: expected a JSON string."
            )
        yield text
