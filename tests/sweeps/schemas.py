"""Our own strict schemas of what we write: no field that Compose or Kubernetes does not know.

They hold the fields that we use and refuse all others; names and types are those of the Compose
Specification and of the Kubernetes API, apps/v1 and v1.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"type": "array", "items": TEXT}
MAP: Schema = {"type": "object", "additionalProperties": TEXT}
DURATION: Schema = {"type": "string", "pattern": r"^\d+s$"}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}


def closed(required: str, optional: str = "", **fields: Schema) -> Schema:
    """Make the schema of an object that has just these fields."""
    assert set(fields) == {*required.split(), *optional.split()}
    return {"type": "object", "required": required.split(), "properties": fields,
            "additionalProperties": False}  # fmt: skip


def many(item: Schema) -> Schema:
    """Make the schema of a list that is not empty."""
    return {"type": "array", "minItems": 1, "items": item}


_SERVICE = closed(
    "image labels command environment ports ipc ulimits restart stop_grace_period healthcheck",
    "volumes deploy",
    image=TEXT, labels=MAP, command=TEXTS, environment=MAP,
    ports=many({"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"}),
    ipc={"const": "host"}, restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
    ulimits={"type": "object", "additionalProperties": {"type": "integer"}},
    stop_grace_period=DURATION,
    healthcheck=closed("test interval timeout retries start_period start_interval",
                       test=TEXTS, interval=DURATION, timeout=DURATION, retries=COUNT,
                       start_period=DURATION, start_interval=DURATION),
    volumes=many(closed("type source target read_only", type={"const": "bind"}, source=TEXT,
                        target=TEXT, read_only={"type": "boolean"})),
    deploy=closed("resources", resources=closed("reservations", reservations=closed(
        "devices", devices=many(closed("driver count capabilities", driver=TEXT, count=COUNT,
                                       capabilities=TEXTS))))),
)  # fmt: skip
COMPOSE = closed("services", services={"type": "object", "minProperties": 1,
                                       "patternProperties": {"^[a-zA-Z0-9._-]+$": _SERVICE},
                                       "additionalProperties": False})  # fmt: skip

_WORD = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_ANNOTATIONS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": f"^[a-z0-9.-]{{1,253}}/{_WORD}$"},
    "additionalProperties": TEXT,
}
_LABELS: Schema = {"type": "object", "additionalProperties": {
    "type": "string", "pattern": f"^{_WORD}$"}}  # fmt: skip
_METADATA = closed("name labels annotations", name=NAME, labels=_LABELS, annotations=_ANNOTATIONS)
_PROBE = closed("httpGet periodSeconds timeoutSeconds failureThreshold",
                httpGet=closed("path port", path=TEXT, port=NAME), periodSeconds=COUNT,
                timeoutSeconds=COUNT, failureThreshold=COUNT)  # fmt: skip
_CONTAINER = closed(
    "name image command env ports startupProbe readinessProbe livenessProbe volumeMounts",
    "resources",
    name=NAME, image=TEXT, command=TEXTS,
    env={"type": "array", "items": closed("name value", name=TEXT, value=TEXT)},
    ports=many(closed("name containerPort", name=NAME, containerPort=COUNT)),
    startupProbe=_PROBE, readinessProbe=_PROBE, livenessProbe=_PROBE,
    volumeMounts=many(closed("name mountPath", "readOnly", name=NAME, mountPath=TEXT,
                             readOnly={"type": "boolean"})),
    resources=closed("limits", limits={"type": "object", "additionalProperties": COUNT}),
)  # fmt: skip
_VOLUME: Schema = {"oneOf": [
    closed("name emptyDir", name=NAME, emptyDir=closed("medium", medium={"const": "Memory"})),
    closed("name hostPath", name=NAME,
           hostPath=closed("path type", path=TEXT, type={"const": "Directory"})),
]}  # fmt: skip
_POD = closed(
    "automountServiceAccountToken enableServiceLinks terminationGracePeriodSeconds containers"
    " volumes",
    automountServiceAccountToken={"type": "boolean"}, enableServiceLinks={"type": "boolean"},
    terminationGracePeriodSeconds=COUNT, containers=many(_CONTAINER), volumes=many(_VOLUME),
)  # fmt: skip
DEPLOYMENT = closed(
    "apiVersion kind metadata spec",
    apiVersion={"const": "apps/v1"}, kind={"const": "Deployment"}, metadata=_METADATA,
    spec=closed(
        "replicas strategy progressDeadlineSeconds selector template",
        replicas=COUNT, strategy=closed("type", type={"enum": ["Recreate", "RollingUpdate"]}),
        progressDeadlineSeconds=COUNT, selector=closed("matchLabels", matchLabels=_LABELS),
        template=closed("metadata spec", metadata=closed("labels", labels=_LABELS), spec=_POD),
    ),
)  # fmt: skip
SERVICE = closed(
    "apiVersion kind metadata spec",
    apiVersion={"const": "v1"}, kind={"const": "Service"}, metadata=_METADATA,
    spec=closed("selector ports", selector=_LABELS,
                ports=many(closed("name port targetPort", name=NAME, port=COUNT,
                                  targetPort={"type": ["string", "integer"]}))),
)  # fmt: skip
