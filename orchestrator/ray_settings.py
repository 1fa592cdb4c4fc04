"""What Ray must find in the environment before it is imported, unless the user says otherwise."""

from collections.abc import Mapping

SETTINGS: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # What Ray has to say of a lost node stays in its logs: we tell it in a line of our own.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}
