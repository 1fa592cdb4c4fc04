"""Where the tracker's store is: from an option, the environment, or the state folder."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from infra.redaction import Redactor
from sweeps.problems import BadInputError, Problem

VARIABLE = "MLFLOW_TRACKING_URI"

_REMOTE = frozenset({"http", "https", "databricks"})
_DATABASES = frozenset({"postgresql", "mysql", "mssql"})
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
    for field, uri in (("--tracking-uri", option), (VARIABLE, variables.get(VARIABLE))):
        if uri:
            if why := _why_not(uri):
                raise BadInputError(
                    "The tracker", [Problem(field, shown_uri(uri), why, _MEND)]
                )  # fmt: skip
            return uri
    return default


def is_remote(uri: str) -> bool:
    """Tell whether a server decides where files go."""
    return urlsplit(uri).scheme in _REMOTE


def shown_uri(uri: str) -> str:
    """Return an address as it may be shown: without passwords."""
    return Redactor.from_environment().text(uri)


def _why_not(uri: str) -> str:
    scheme = urlsplit(uri).scheme
    if uri == "databricks" or scheme in _REMOTE or scheme.split("+")[0] in _DATABASES:
        return ""
    if scheme == "sqlite":
        absolute = uri.startswith("sqlite:////")
        return "" if absolute else "its path is not absolute, so it names a file by chance"
    if scheme in ("", "file"):
        return "it names a folder, which MLflow no longer takes as a store"
    return f"MLflow knows no {scheme} stores"
