"""What Ray must find in the environment before it is imported, unless the user says otherwise."""

from collections.abc import Mapping

from infra.cluster.words import START_S

SETTINGS: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # A busy machine takes longer than the 30 s that Ray waits for its parts.
    "RAY_raylet_start_wait_time_s": str(START_S),
    # What Ray has to say of a lost node stays in its logs: we tell it in a line of our own.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}
