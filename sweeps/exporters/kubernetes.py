"""The recommendation as a Deployment and a Service of Kubernetes."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeps.exporters.containers import (
    HEALTH,
    PROBE_EVERY_S,
    PYTHON,
    SHARED_MEMORY,
    command,
    doubled,
    facts,
    remarks,
)
from sweeps.exporters.launches import PORT, Reading, Unknown, UnreadableExportError, Word
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command, starts_a_server
from sweeps.exporters.yaml_objects import dumped, items, mapping, objects, plain, shown, texts

_GPU = "nvidia.com/gpu"
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_OF_A_CONTAINER = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "livenessProbe", "name",
    "ports", "readinessProbe", "resources", "startupProbe", "terminationMessagePath",
    "terminationMessagePolicy", "volumeMounts",
})  # fmt: skip
"""What is read elsewhere, or does not change the process."""
_OF_A_POD = frozenset({
    "affinity", "automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks",
    "imagePullSecrets", "nodeName", "nodeSelector", "priorityClassName", "restartPolicy",
    "schedulerName", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds",
    "tolerations", "volumes",
})  # fmt: skip


def write(what: Recommendation) -> str:
    """Write both objects."""
    body = dumped([_deployment(what), _service(what)])
    data = as_comments(record(what, "kubernetes"))
    return "\n".join([*comments(what), *remarks(what), "---", body, *data]) + "\n"


def read(text: str) -> Reading:
    """Read what the Deployment starts. Raises UnreadableExportError."""
    found = [
        (pod, container)
        for one in objects(text)
        if mapping(one, "a document").get("kind") == "Deployment"
        for pod in [_pod_of(one)]
        for container in items(pod.get("containers"), "`containers`")
        if starts_a_server(_command(mapping(container, "a container")))
    ]
    if len(found) != 1:
        raise UnreadableExportError(f"{len(found)} containers of it start a server, not one")
    pod, container = found[0]
    if container.get("command") is None:
        raise UnreadableExportError("the image decides what its `args` are given to")
    env = _environment(container)
    words = [expanded(word, env) for word in _command(container)]
    read = read_command(words, env, *_beyond(pod, container))
    python = "" if read.python == PYTHON else read.python
    return replace(read, python=python, gpus=_gpus(container))


def _pod_of(deployment: Any) -> dict[str, Any]:
    here = deployment
    for key in ("spec", "template", "spec"):
        here = mapping(mapping(here, "it").get(key), f"`{key}`")
    return mapping(here, "`spec`")


def _command(container: Mapping[str, Any]) -> list[str]:
    return [word for key in ("command", "args") for word in texts(container.get(key), f"`{key}`")]


def _environment(container: Mapping[str, Any]) -> dict[str, Word]:
    """Return its variables; each may hold those before it."""
    env: dict[str, Word] = {}
    for one in items(container.get("env"), "`env`"):
        told = mapping(one, "a variable")
        name, value, source = told.get("name"), told.get("value"), told.get("valueFrom")
        if not isinstance(name, str) or (source is not None and value not in (None, "")):
            raise UnreadableExportError(f"{shown(one)} is no variable")
        if source is not None:
            env[name] = Unknown(f"valueFrom {shown(source)}")
        elif isinstance(value, str) or value is None:
            env[name] = expanded(value or "", env)
        else:
            why = f"{name} is {shown(value)}, and not a text: put it into quotes"
            raise UnreadableExportError(why)
    return env


def expanded(text: str, env: Mapping[str, Word]) -> Word:
    """Replace $(NAME) by a variable's value, as Kubernetes does; $$ is a dollar.

    A name that is not there stays as it stands.
    """
    is_known = all(
        isinstance(env.get(match[1], ""), str) for match in _REFERENCE.finditer(text) if match[1]
    )
    if not is_known:
        return Unknown(text)
    return _REFERENCE.sub(lambda match: str(env.get(match[1], match[0])) if match[1] else "$", text)


def _beyond(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    for source in items(container.get("envFrom"), "`envFrom`"):
        yield f"envFrom {shown(source)} sets what this file does not tell"
    others = len(items(pod.get("containers"), "`containers`")) - 1
    if others:
        yield f"{others} more containers run beside it"
    for what, given, known in (
        ("container", container, _OF_A_CONTAINER), ("pod", pod, _OF_A_POD)
    ):  # fmt: skip
        yield from (
            f"`{key}` of its {what} is {shown(given[key])}" for key in given if key not in known
        )
    mounts = [mapping(one, "a mount") for one in items(container.get("volumeMounts"), "mounts")]
    if not any(mount.get("mountPath") == SHARED_MEMORY for mount in mounts):
        yield f"nothing is mounted at {SHARED_MEMORY}"
    yield from _resources(container)


def _resources(container: Mapping[str, Any]) -> Iterator[str]:
    for kind, given in mapping(container.get("resources"), "`resources`").items():
        for name, amount in mapping(given, f"`{kind}`").items():
            if name != _GPU:
                yield f"its {kind} of {name} are {shown(amount)}"


def _gpus(container: Mapping[str, Any]) -> int:
    resources = mapping(container.get("resources"), "`resources`")
    told = str(plain(mapping(resources.get("limits"), "`limits`").get(_GPU)))
    return int(told) if told.isdigit() else 0


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
        container["resources"] = {"limits": {_GPU: what.origin.gpus}}
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
