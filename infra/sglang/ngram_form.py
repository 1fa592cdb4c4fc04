"""How the n-gram drafter of each version of SGLang reads its settings."""

from collections.abc import Mapping

from infra.sglang.flag import version_key
from infra.sglang.flags import FLAGS, spelled
from infra.sglang.neutral import NEUTRAL
from sweeps.replay.form import NgramForm
from sweeps.values import Value

LIKELIHOOD_SINCE = "0.5.10"
"""Before, the match type was not handed to the drafter."""
INSERTS_BEHIND_SINCE = "0.5.14"
"""Since then accepted tokens enter the trie one verify later, and overlap scheduling stays on."""


def ngram_form(version: str, fixed: Mapping[str, Value]) -> NgramForm:
    """Return the form of a version, where `fixed` are the flags that no configuration changes."""
    names = [n for n in FLAGS if n.startswith("speculative_ngram_") and FLAGS[n].exists_in(version)]
    names.append("speculative_num_draft_tokens")
    told = {spelled(name, version): value for name, value in fixed.items()}
    behind = _since(version, INSERTS_BEHIND_SINCE)
    serial = fixed.get("disable_overlap_schedule") or fixed.get("device") == "cpu"
    return NgramForm(
        defaults={name: told.get(name, FLAGS[name].default_in(version)) for name in names},
        spelled={name: spelled(name, version) for name in NEUTRAL},
        knows_likelihood=_since(version, LIKELIHOOD_SINCE),
        inserts_behind=behind,
        overlap=behind and not serial,
    )


def _since(version: str, first: str) -> bool:
    return version_key(version) >= version_key(first)
