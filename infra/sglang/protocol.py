"""Which version of SGLang speaks what: routes, fields of replies, and what each API needs of them.

Read in the published wheels 0.5.2 to 0.5.23: srt/entrypoints/http_server.py, v1_loads.py, openai/,
srt/managers/tokenizer_manager.py, srt/sampling/sampling_params.py and srt/server_args.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from infra.sglang.flags import version_key
from sweeps.problems import Problem

CHAT, GENERATE = "chat", "generate"


class Feature(StrEnum):
    """Something that not all versions have; the value is how it is called there."""

    CONTINUOUS_USAGE = "stream_options.continuous_usage_stats"
    """A token count in each chunk of the OpenAI routes; without it only after the last."""
    CHAT_VERIFY_COUNT = "return_spec_tokens_details"
    """The verify steps of a request at the end of a chat stream."""
    CHAT_IDS = "return_output_ids_in_sglext"
    META_IN_CHAT = "return_meta_info"
    VERIFY_COUNT = "meta_info.spec_verify_ct"
    SAMPLING_SEED = "sampling_params.sampling_seed"
    QUEUE_TIME = "meta_info.queue_time"
    FLUSH_WAITS = "/flush_cache?timeout="
    FLUSH_TELLS = "the reason of a refused /flush_cache"
    ABORT_IN_CHAT = "an error event for an aborted chat stream"
    """Without it the connection just closes, but for a refusal with status 400."""
    ABORT_IN_GENERATE = "finish_reason.message of an aborted /generate stream"
    """Without it the connection just closes, but for a refusal with status 400."""
    CONFIG_FILE = "--config"


SINCE: Mapping[Feature, str] = {
    Feature.VERIFY_COUNT: "0.5.2",
    Feature.SAMPLING_SEED: "0.5.3",
    Feature.CONFIG_FILE: "0.5.3",
    Feature.CONTINUOUS_USAGE: "0.5.5",
    Feature.QUEUE_TIME: "0.5.5",
    Feature.FLUSH_WAITS: "0.5.10",
    Feature.FLUSH_TELLS: "0.5.10",
    Feature.ABORT_IN_CHAT: "0.5.10",
    Feature.ABORT_IN_GENERATE: "0.5.11",
    Feature.META_IN_CHAT: "0.5.13",
    Feature.CHAT_VERIFY_COUNT: "0.5.19",
    Feature.CHAT_IDS: "0.5.20",
}
"""The first release of each."""

ROUTES: Mapping[str, tuple[str, str | None]] = {
    "/get_server_info": ("0.5.2", None),
    "/get_model_info": ("0.5.2", None),
    "/server_info": ("0.5.6.post2", None),
    "/model_info": ("0.5.6.post2", None),
    "/get_load": ("0.5.2", "0.5.20"),
    "/v1/loads": ("0.5.8", None),
    "/ready": ("0.5.20", None),
    "/add_external_corpus": ("0.5.11", None),
    "/remove_external_corpus": ("0.5.11", None),
    "/list_external_corpora": ("0.5.11", None),
}
"""First and last version of the routes that not all have. `/flush_cache` takes GET and POST in all,
`/generate` POST and PUT."""


def has(feature: Feature, version: str) -> bool:
    """Tell whether a version has a feature."""
    return version_key(version) >= version_key(SINCE[feature])


def has_route(path: str, version: str) -> bool:
    """Tell whether a version serves a path; paths that are in no table always exist."""
    first, last = ROUTES.get(path, ("0", None))
    at = version_key(version)
    return version_key(first) <= at and (last is None or at <= version_key(last))


@dataclass(frozen=True, slots=True)
class Needs:
    """What an API must have: to be measured through at all, and besides for some loads."""

    always: tuple[Feature, ...] = ()
    sampled: tuple[Feature, ...] = ()
    """At a temperature above 0."""
    drafting: tuple[Feature, ...] = ()
    """To tell accept lengths; without it speculation is measured by its rate alone."""


DIALECT_NEEDS: Mapping[str, Needs] = {
    CHAT: Needs((Feature.CONTINUOUS_USAGE,), drafting=(Feature.CHAT_VERIFY_COUNT,)),
    GENERATE: Needs(sampled=(Feature.SAMPLING_SEED,), drafting=(Feature.VERIFY_COUNT,)),
}
"""The APIs that can be spoken, the preferred one first: it takes what users send."""


@dataclass(frozen=True, slots=True)
class Load:
    """What of a sweep decides which API it can be measured through."""

    versions: Mapping[str, str]
    """The SGLang of each host."""
    is_sampled: bool = False
    is_drafting: bool = False

    def lacking(self, dialect: str) -> tuple[str, ...]:
        """Say what keeps an API from being spoken, host by host."""
        needs = DIALECT_NEEDS[dialect]
        wanted = (*needs.always, *(needs.sampled if self.is_sampled else ()))
        return tuple(self._lacks(wanted))

    def untold(self, dialect: str) -> tuple[str, ...]:
        """Say what an API does not tell of drafts, host by host."""
        return tuple(self._lacks(DIALECT_NEEDS[dialect].drafting if self.is_drafting else ()))

    def _lacks(self, features: Sequence[Feature]) -> Iterator[str]:
        for host, version in self.versions.items():
            for feature in features:
                if not has(feature, version):
                    since = SINCE[feature]
                    yield f"SGLang {version} of host {host} has no {feature.value} (from {since})"


def fitting_dialect(load: Load, preferred: str = "") -> str:
    """Return the API that all hosts have: the preferred one, else the first that tells of drafts.

    Empty where they have none in common.
    """
    spoken = [dialect for dialect in DIALECT_NEEDS if not load.lacking(dialect)]
    if preferred in spoken:
        return preferred
    telling = [dialect for dialect in spoken if not load.untold(dialect)]
    return next(iter([*telling, *spoken]), "")


def dialect_problems(load: Load, dialect: str) -> list[Problem]:
    """List why an API that somebody chose cannot be spoken; empty: why none can."""
    if not dialect:
        whys = "; ".join(f"`{name}`: {', '.join(load.lacking(name))}" for name in DIALECT_NEEDS)
        mend = "Install a newer SGLang" + (", or use temperature=0." if load.is_sampled else ".")
        return [Problem("workload.dialect", "any", f"no API can be measured ({whys})", mend)]
    if dialect not in DIALECT_NEEDS or not (lacking := load.lacking(dialect)):
        return []
    other = fitting_dialect(load)
    mend = f"Use `{other}`, or leave it out." if other else "Install a newer SGLang."
    return [Problem("workload.dialect", dialect, "; ".join(lacking), mend)]
