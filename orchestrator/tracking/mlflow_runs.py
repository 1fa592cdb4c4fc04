"""Runs in an MLflow store, found by their tags: made once, filled within MLflow's limits."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from infra.redaction import Redactor
from orchestrator.tracking.legal import Texts, batches, legal_names, legal_texts, name_tags
from orchestrator.tracking.legal import value_file as value_file_of
from orchestrator.tracking.mlflow_api import MlflowApi

_T = TypeVar("_T")

KNOWN_RUNS = 512
"""Ids of runs that are remembered; others are looked up again."""

PARENT_TAG = "mlflow.parentRunId"
FILES_TAG = "files_missing"
"""The tag that says why files of a run are not there."""

_METRIC_BYTES = 120
_TEXT_BYTES = 40
"""What a request holds for each beside name and value, roughly."""

_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Point:
    """A number in a series."""

    name: str
    value: float
    at_ms: int
    step: int


@dataclass(slots=True)
class MlflowRuns:
    """Used by one thread; raises MLflow's errors. Secrets are masked in all that is sent."""

    load: Callable[[], MlflowApi]
    artifact_root: Path | None
    """None leaves it to the server where files go."""
    experiment: str
    redactor: Redactor = field(default_factory=Redactor.from_environment)
    _api: MlflowApi | None = None
    _experiment_id: str = ""
    _runs: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def api(self) -> MlflowApi:
        """Return MLflow, which is loaded at the first use."""
        if self._api is None:
            self._api = self.load()
        return self._api

    @property
    def client(self) -> Any:
        """Return MLflow's client."""
        return self.api.client

    @property
    def experiment_id(self) -> str:
        """Return the experiment, which is found or made once."""
        if not self._experiment_id:
            self._experiment_id = self._open()
        return self._experiment_id

    def forget(self, *names: tuple[str, str]) -> None:
        """Look runs up again, or the given ones: one may have been deleted by hand."""
        if not names:
            self._runs.clear()
            self._experiment_id = ""
        for name in names:
            self._runs.pop(name, None)

    def find(self, kind: str, name: str, sweep: str | None = None) -> str | None:
        """Return the id of the run of a sweep or trial; None where there is none."""
        if (kind, name) not in self._runs:
            asked = f"tags.kind = '{kind}' and tags.{kind} = {quoted(name)}"
            if sweep is not None:
                asked += f" and tags.sweep = {quoted(sweep)}"
            if found := list(self.search(asked)):
                self._remember((kind, name), self.keep_one(found))
        return self._runs.get((kind, name))

    def keep_one(self, runs: list[Any]) -> str:
        """Return the one run of several that are the same, and delete the others.

        A server that was away may make a run long after the client gave up and asked again.
        """
        fullest = max(runs, key=lambda run: (len(run.data.metrics), len(run.data.tags)))
        for run in runs:
            if run is not fullest:
                self.client.delete_run(run.info.run_id)
        return str(fullest.info.run_id)

    def search(self, asked: str) -> Iterator[Any]:
        """Return the runs that a filter lets through, page by page."""
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], asked, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def create(self, kind: str, name: str, shown: str, tags: Mapping[str, str], at_ms: int) -> str:
        """Make a run; nobody has looked for it in vain a moment ago but the caller."""
        made = self._texts(tags, self.api.limits.tag_chars)
        sent = {**made.sent, **name_tags(made.renamed)}
        # A deleted experiment takes no runs, and says so.
        run = self.client.create_run(
            self.experiment_id, at_ms, sent, self.redactor.text(shown)[:_LONGEST_NAME]
        )
        run_id = str(run.info.run_id)
        self._remember((kind, name), run_id)
        self._attach(run_id, made.too_long)
        return run_id

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        points: Iterable[Point] = (),
    ) -> None:
        """Log all in as few requests as MLflow allows, whatever the names and lengths.

        A parameter that has changed becomes a tag: MLflow refuses to change it.
        """
        limits = self.api.limits
        made_params = self._texts(params or {}, limits.param_chars)
        made_tags = self._texts(tags or {}, limits.tag_chars)
        known = self.client.get_run(run_id).data.params if made_params.sent else {}
        new = {n: text for n, text in made_params.sent.items() if n not in known}
        changed = {n: text for n, text in made_params.sent.items() if known.get(n, text) != text}
        all_tags = {
            **made_tags.sent, **changed,
            **name_tags(made_params.renamed), **name_tags(made_tags.renamed),
        }  # fmt: skip
        self._send(run_id, new, all_tags, list(points))
        self._attach(run_id, {**made_params.too_long, **made_tags.too_long})

    def attach(self, run_id: str, path: Path) -> None:
        """Keep a file with a run."""
        self.client.log_artifact(run_id, str(path))

    def attach_texts(self, run_id: str, texts: Mapping[str, str]) -> None:
        """Keep texts as files by their paths; where files fail, the run says so."""
        if not texts:
            return
        try:
            with tempfile.TemporaryDirectory() as scratch:
                for name, text in texts.items():
                    path = Path(scratch) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(self.redactor.text(text))
                    folder = str(Path(name).parent)
                    self.client.log_artifact(run_id, str(path), None if folder == "." else folder)
        except (self.api.exception, OSError) as error:
            self.client.set_tag(run_id, FILES_TAG, self.redactor.text(str(error))[:500])

    def _texts(self, texts: Mapping[str, str], longest_chars: int) -> Texts:
        masked = {name: str(self.redactor.value(name, text)) for name, text in texts.items()}
        return legal_texts(masked, longest_chars, self.api.limits.name_chars)

    def _send(
        self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], points: list[Point]
    ) -> None:
        limits = self.api.limits
        names = legal_names((p.name for p in points), limits.name_chars)
        tags = {**tags, **name_tags({sent: name for name, sent in names.items() if sent != name})}
        made_params = [(self.api.param(n, t), _length_bytes(n, t)) for n, t in params.items()]
        made_tags = [(self.api.run_tag(n, t), _length_bytes(n, t)) for n, t in tags.items()]
        metrics = [
            (self.api.metric(names[p.name], p.value, p.at_ms, p.step), _METRIC_BYTES + len(p.name))
            for p in points
        ]
        most, most_bytes = limits.texts_per_batch, limits.batch_bytes // 3
        groups = _zip_longest(
            batches(made_params, most, most_bytes),
            batches(made_tags, most, most_bytes),
            batches(metrics, min(limits.metrics_per_batch, limits.all_per_batch - 2 * most),
                    most_bytes),
        )  # fmt: skip
        for some_params, some_tags, some_metrics in groups:
            self.client.log_batch(run_id, params=some_params, tags=some_tags, metrics=some_metrics)

    def _attach(self, run_id: str, texts: Mapping[str, str]) -> None:
        """Keep long values as files."""
        self.attach_texts(run_id, {value_file_of(name): text for name, text in texts.items()})

    def _remember(self, name: tuple[str, str], run_id: str) -> None:
        while len(self._runs) >= KNOWN_RUNS:
            self._runs.pop(next(iter(self._runs)))
        self._runs[name] = run_id

    def _open(self) -> str:
        found = self.client.get_experiment_by_name(self.experiment)
        if found is None:
            location = None if self.artifact_root is None else self.artifact_root.as_uri()
            with contextlib.suppress(self.api.exception):  # somebody else may just have made it
                return str(self.client.create_experiment(self.experiment, location))
            found = self.client.get_experiment_by_name(self.experiment)
            if found is None:  # then it fails for a reason, which this time is told
                return str(self.client.create_experiment(self.experiment, location))
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)


def quoted(text: str) -> str:
    """Write a text in a filter."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def _length_bytes(name: str, text: str) -> int:
    return _TEXT_BYTES + len(name) + len(json.dumps(text))


def _zip_longest(
    *groups: Iterator[list[Any]],
) -> Iterator[tuple[list[Any], ...]]:
    """Go through several sequences of batches at once, until the longest ends."""
    while True:
        row = tuple(next(group, []) for group in groups)
        if not any(row):
            return
        yield row
