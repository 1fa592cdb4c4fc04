"""Where the store is."""

import pytest

from orchestrator.tracking.tracking_uri import VARIABLE, is_remote, shown_uri, tracking_uri
from sweeps.problems import BadInputError

DEFAULT = "sqlite:////state/mlflow.db"


@pytest.mark.parametrize(
    ("option", "environment", "uri"),
    [
        (None, None, DEFAULT),
        (None, "", DEFAULT),
        (None, "http://a:5000", "http://a:5000"),
        ("https://b", "http://a:5000", "https://b"),
        ("sqlite:////x/y.db", None, "sqlite:////x/y.db"),
        ("postgresql+psycopg2://h/db", None, "postgresql+psycopg2://h/db"),
        ("databricks", None, "databricks"),
    ],
)
def test_the_option_goes_before_the_environment(
    option: str | None, environment: str | None, uri: str
) -> None:
    environ = {} if environment is None else {VARIABLE: environment}
    assert tracking_uri(DEFAULT, option, environ) == uri


@pytest.mark.parametrize(
    "uri", ["./mlruns", "mlruns", "/a/mlruns", "file:///a", "sqlite:///a.db", "ftp://a"]
)
@pytest.mark.parametrize("named", ["--tracking-uri", VARIABLE])
def test_a_folder_is_one_clear_error(uri: str, named: str) -> None:
    option, environ = (uri, {}) if named == "--tracking-uri" else (None, {VARIABLE: uri})
    with pytest.raises(BadInputError) as caught:
        tracking_uri(DEFAULT, option, environ)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (named, uri)
    assert "SQLite file in the state folder" in problem.mend


def test_passwords_in_addresses_are_not_shown() -> None:
    assert shown_uri("https://sam:hidden@host/x") == "https://[redacted]@host/x"
    with pytest.raises(BadInputError) as caught:
        tracking_uri(DEFAULT, "ftp://sam:hidden@host", {})
    assert "hidden" not in str(caught.value)


def test_servers_are_told_from_files() -> None:
    assert is_remote("http://a")
    assert not is_remote(DEFAULT)
