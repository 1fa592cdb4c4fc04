"""Where the tracker's store is: from an option, the environment, or the state folder."""

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from infra.redaction import Redactor
from sweeps.problems import BadInputError, Problem

VARIABLE = "MLFLOW_TRACKING_URI"
OPTION = "--tracking-uri"
IGNORED = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")
"""Variables by which MLflow would take up a run or an experiment of another project."""

_DATABASES = frozenset({"sqlite", "postgresql", "mysql", "mssql"})
_FILES_ONLY = frozenset({
    "abfss", "dbfs", "ftp", "gs", "hdfs", "mlflow-artifacts", "r2", "s3", "sftp", "viewfs", "wasbs",
})  # fmt: skip
"""Where MLflow keeps files, and no runs (mlflow.store.artifact.artifact_repository_registry)."""
_PLUGINS = "mlflow.tracking_store"
"""The group of entry points by which a plugin serves a scheme, such as `arn` or `azureml`."""
_WORDS = ("databricks", "databricks-uc", "uc")
"""Addresses of one word, as MLflow takes them."""
_MEND = (
    "Leave it out for a SQLite file in the state folder, or give `sqlite:////absolute/path.db`"
    " or the `http://` address of an MLflow server."
)


def tracking_uri(
    default: str, option: str | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Return the address of the store: the option, else MLFLOW_TRACKING_URI, else the default.

    Raises BadInputError for an address that means another place in another folder, and for folders,
    which MLflow no longer takes.
    """
    variables = os.environ if environ is None else environ
    if option and urlsplit(option).password:
        why = "everybody on this machine can read a password in a command line"
        mend = (
            f"Give it by {VARIABLE}, or by MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        )
        raise BadInputError("The tracker", [Problem(OPTION, shown_uri(option), why, mend)])
    for field, uri in ((OPTION, option), (VARIABLE, variables.get(VARIABLE))):
        if uri:
            if why := _why_not(uri):
                raise BadInputError("The tracker", [Problem(field, shown_uri(uri), why, _MEND)])
            return uri
    return default


def chosen_by(option: str | None) -> str:
    """Return what chose a store that is not the default."""
    return OPTION if option else VARIABLE


def store_words(uri: str, default: str, option: str | None) -> str:
    """Say where the runs of a sweep go, and what chose that place; without passwords."""
    if uri == default:
        return f"runs in MLflow at {uri}"
    return f"runs in MLflow at {shown_uri(uri)} ({chosen_by(option)})"


def ignored_words(environ: Mapping[str, str] | None = None) -> str:
    """Say which variables of another project's MLflow do not count; empty without any."""
    variables = os.environ if environ is None else environ
    found = [name for name in IGNORED if variables.get(name)]
    if not found:
        return ""
    verb = "is" if len(found) == 1 else "are"
    return f"{' and '.join(found)} {verb} ignored: a sweep makes runs and an experiment of its own"


def is_remote(uri: str) -> bool:
    """Tell whether a server decides where files go; what a plugin serves counts as one."""
    scheme = _scheme(uri)
    return scheme not in ("", "file") and scheme.split("+")[0] not in _DATABASES


def shown_uri(uri: str) -> str:
    """Return an address as it may be shown: without passwords."""
    return Redactor.from_environment().text(uri)


def without_login(uri: str) -> str:
    """Return the address of a server as a browser opens it, which asks for the login itself."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _why_not(uri: str) -> str:
    """Say what is surely wrong with an address; all else is MLflow's to judge, by asking it."""
    scheme = _scheme(uri)
    if scheme == "sqlite":
        absolute = uri.startswith("sqlite:////")
        return "" if absolute else "its path is not absolute, so it names a file by chance"
    if scheme in ("", "file"):
        return "it names a folder, which MLflow no longer takes as a store"
    if scheme in _FILES_ONLY and not entry_points(group=_PLUGINS, name=scheme):
        return f"MLflow keeps files at {scheme} addresses, and no runs"
    return ""


def _scheme(uri: str) -> str:
    return uri if uri in _WORDS else urlsplit(uri).scheme
