"""Where the store is."""

from pathlib import Path

import pytest

from orchestrator.tracking.tracking_uri import (
    VARIABLE,
    is_remote,
    shown_uri,
    tracking_uri,
    without_login,
)
from sweeps.problems import BadInputError

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:mlflow-tracking-server/a"
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
        ("databricks://profile", None, "databricks://profile"),
        ("uc:workspace", None, "uc:workspace"),
        # Addresses of plugins: sagemaker-mlflow, azureml-mlflow, and what nobody here knows.
        (ARN, None, ARN),
        (
            "azureml://eastus.api.azureml.ms/mlflow/v1.0/x",
            None,
            "azureml://eastus.api.azureml.ms/mlflow/v1.0/x",
        ),
        ("file-plugin:///x", None, "file-plugin:///x"),
        ("unknown+scheme://x", None, "unknown+scheme://x"),
    ],
)
def test_the_option_goes_before_the_environment(
    option: str | None, environment: str | None, uri: str
) -> None:
    environ = {} if environment is None else {VARIABLE: environment}
    assert tracking_uri(DEFAULT, option, environ) == uri


@pytest.mark.parametrize(
    "uri", ["./mlruns", "mlruns", "/a/mlruns", "file:///a", "sqlite:///a.db", "ftp://a", "s3://a/b"]
)
@pytest.mark.parametrize("named", ["--tracking-uri", VARIABLE])
def test_a_folder_is_one_clear_error(uri: str, named: str) -> None:
    option, environ = (uri, {}) if named == "--tracking-uri" else (None, {VARIABLE: uri})
    with pytest.raises(BadInputError) as caught:
        tracking_uri(DEFAULT, option, environ)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (named, uri)
    assert "SQLite file in the state folder" in problem.mend


@pytest.mark.parametrize(
    ("uri", "opened"),
    [("https://sam:p@ss@host:1/x", "https://host:1/x"), ("https://host/x", "https://host/x"),
     ("databricks", "databricks"), (ARN, ARN)],
)  # fmt: skip
def test_the_page_of_a_server_is_opened_without_the_login(uri: str, opened: str) -> None:
    assert without_login(uri) == opened


def test_passwords_in_addresses_are_not_shown() -> None:
    assert shown_uri("https://sam:hidden@host/x") == "https://[redacted]@host/x"
    with pytest.raises(BadInputError) as caught:
        tracking_uri(DEFAULT, "ftp://sam:hidden@host", {})
    assert "hidden" not in str(caught.value)


def test_servers_are_told_from_files() -> None:
    assert is_remote("http://a")
    assert not is_remote(DEFAULT)
    for uri in ("databricks", "databricks://profile", ARN, "azureml://a/b"):
        assert is_remote(uri)
    for uri in ("postgresql+psycopg2://h/db", "mysql://h/db", "./mlruns", "file:///a"):
        assert not is_remote(uri)


@pytest.mark.slow
@pytest.mark.parametrize("uri", [ARN, "unknown://x"])
def test_an_address_that_no_plugin_serves_is_told_by_mlflow(uri: str, tmp_path: Path) -> None:
    """MLflow is asked before anything starts, and its answer is the reason."""
    from orchestrator.tracking.mlflow_writer import check_store

    told = check_store(uri, tmp_path, "any")
    assert told is not None
    assert "takes no files" in told
    assert "Supported URI schemes" in told or "unsupported" in told
