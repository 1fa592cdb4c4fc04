"""The recommendation as JSON."""

import json

from sweeps.exporters.launches import Reading
from sweeps.exporters.recommendation import Recommendation
from sweeps.exporters.sealed import launch_of, read_record, record


def write(what: Recommendation) -> str:
    """Write configuration, launch command and evidence as one object."""
    return json.dumps(record(what, "json"), indent=2) + "\n"


def read(text: str) -> Reading:
    """Read what the file starts. Raises UnreadableExportError."""
    return Reading(launch_of(read_record(text)))
