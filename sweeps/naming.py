"""How a configuration is named on a short line."""

from sweeps.config import Config

_PREFIXES = ("speculative_ngram_", "speculative_", "SGLANG_", "NCCL_")


def short(config: Config) -> str:
    """Write a configuration on a short line: unset and switched-off settings are left out."""
    shown = [
        f"{abbreviated(name)}={value}"
        for name, value in config.items()
        if value is not None and value is not False and name != "speculative_algorithm"
    ]
    return " ".join([config.algorithm or "plain", *shown])


def abbreviated(name: str) -> str:
    """Write the name of a setting without what says whose it is."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
