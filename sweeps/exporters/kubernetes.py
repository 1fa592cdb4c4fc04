"""The recommendation as a Deployment and a Service of Kubernetes."""

import math
from typing import Any

from sweeps.exporters.containers import (
    HEALTH,
    PROBE_EVERY_S,
    SHARED_MEMORY,
    command,
    doubled,
    facts,
    remarks,
    undoubled,
)
from sweeps.exporters.launches import PORT, Launch, UnreadableExportError, after_module
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record


def write(what: Recommendation) -> str:
    """Write both objects."""
    import yaml

    objects = [_deployment(what), _service(what)]
    body = yaml.safe_dump_all(objects, sort_keys=False, width=100).rstrip("\n")
    data = as_comments(record(what, "kubernetes"))
    return "\n".join([*comments(what), *remarks(what), "---", body, *data]) + "\n"


def read(text: str) -> Launch:
    """Read what the Deployment starts. Raises UnreadableExportError."""
    import yaml

    try:
        objects = [one for one in yaml.safe_load_all(text) if one]
        deployment = next(one for one in objects if one["kind"] == "Deployment")
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        words = [undoubled(str(word)) for word in container["command"]]
        env = {one["name"]: undoubled(str(one["value"])) for one in container.get("env", [])}
    except (yaml.YAMLError, LookupError, TypeError, StopIteration) as error:
        raise UnreadableExportError(f"it holds no Deployment as exported: {error}") from error
    return Launch(after_module(words), env)


def _deployment(what: Recommendation) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(what),
        "spec": {
            "replicas": 1,
            # Two servers do not fit on one host's GPUs: the old one goes first.
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": math.ceil(what.origin.start_s) + 600,
            "selector": {"matchLabels": _labels(what)},
            "template": {"metadata": {"labels": _labels(what)}, "spec": _pod(what)},
        },
    }


def _pod(what: Recommendation) -> dict[str, Any]:
    folders = {f"model-{number}": path for number, path in enumerate(what.launch.folders)}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(what.origin.stop_s) + 10,
        "containers": [_container(what, folders)],
        "volumes": [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            *(
                {"name": name, "hostPath": {"path": path, "type": "Directory"}}
                for name, path in folders.items()
            ),
        ],
    }


def _container(what: Recommendation, folders: dict[str, str]) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "shared-memory", "mountPath": SHARED_MEMORY}]
    mounts += [{"name": n, "mountPath": p, "readOnly": True} for n, p in folders.items()]
    container: dict[str, Any] = {
        "name": "sglang",
        "image": what.image,
        "command": [doubled(word) for word in command(what)],
        "env": [{"name": n, "value": doubled(v)} for n, v in sorted(what.env.items())],
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": _probe(PROBE_EVERY_S, math.ceil(what.origin.start_s / PROBE_EVERY_S), 5),
        "readinessProbe": _probe(PROBE_EVERY_S, 3, 5),
        # A full queue delays the answer: only a server that is stuck is started again.
        "livenessProbe": _probe(30, 10, 25),
        "volumeMounts": mounts,
    }
    if what.origin.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": what.origin.gpus}}
    return container


def _probe(every_s: int, failures: int, timeout_s: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": HEALTH, "port": "http"},
        "periodSeconds": every_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": failures,
    }


def _service(what: Recommendation) -> dict[str, Any]:
    port = {"name": "http", "port": PORT, "targetPort": "http"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(what),
        "spec": {"selector": _labels(what), "ports": [port]},
    }


def _metadata(what: Recommendation) -> dict[str, Any]:
    return {"name": what.name, "labels": _labels(what), "annotations": facts(what)}


def _labels(what: Recommendation) -> dict[str, str]:
    return {"app.kubernetes.io/name": what.name}
