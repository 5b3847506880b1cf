"""Objects without the differences that two runs of one application on one cluster have. Pure.

Owns the table of these differences: times, and the identities, addresses and names that a cluster
assigns. Each is replaced by its meaning and not removed, so that a reference to a wrong object is
seen. Hazard: a value that is normalised too far hides a fault. Two runs on one cluster must show no
difference, and only what this needs is normalised.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tools.compare.inventory import Object

Json = Any
NormalForm = Mapping[str, Object]
"""Bodies by `Kind/name`. Several of one name, such as the pods of a ReplicaSet, get numbers."""

LEFT_OUT = frozenset(
    {"metadata.resourceVersion", "kind", "apiVersion", "spec.claimRef.resourceVersion"}
)
"""Paths without a meaning of their own."""
NUMBERS = {
    "Service": frozenset({"spec.ports[].nodePort", "spec.healthCheckNodePort"}),
    "Node": frozenset({"status.images"}),
}
"""Paths of what a cluster picks, by kind: that it is there counts, not what it is."""
CHANCE = {
    "Pod": frozenset({"status.resources.limits"}),
    "EndpointSlice": frozenset({"metadata.generation"}),
    "Endpoints": frozenset({"metadata.annotations"}),
}
"""Paths of what differs by chance, by kind: a kubelet looks into the pod's cgroup before or after
the runtime has written there, and pods become ready one by one or together. The controller of
Endpoints notes there what woke it last, and takes that away when it is woken for nothing."""
EVENTS_BY_CHANCE = re.compile(
    r" (Unhealthy|NoPods|WaitFor\w+|ExternalProvisioning|FailedToUpdateEndpoint\w*): "
    r"|the object has been modified|failed to sync \w+ cache: timed out"
    r"|no relationship found between node|persistentvolumeclaim \S+ not found"
)
"""Events that occur when one controller, probe or cache was quicker than another."""
PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "(time)"),
    (re.compile(r"\b[a-z]+://[0-9a-f]{64}\b"), "(container)"),
    (re.compile(r"\bkube-api-access-[a-z0-9]{5}\b"), "kube-api-access-*"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s)\b"), "(duration)"),
)
"""Texts that differ wherever they stand."""
_SUFFIX = re.compile(r"[a-z0-9]{5}")
_MINUTES = re.compile(r"-\d{8,}$")


def normal_form(objects: Iterable[Object], namespace: str) -> NormalForm:
    """Return the objects of one cluster in their normal form."""
    found = list(objects)
    words = _ClusterNames(found, namespace)
    groups: defaultdict[str, list[Object]] = defaultdict(list)
    for item in found:
        if item["kind"] != "Event":
            groups[_key(item, words)].append(_body(item, words))
            continue
        said, body = _event(item, words)
        if EVENTS_BY_CHANCE.search(said) is None:
            groups[f"Event/{said}"] = [body]  # the number of times is chance
    return {
        key if len(bodies) == 1 else f"{key} #{number}": body
        for key, bodies in groups.items()
        for number, body in enumerate(sorted(bodies, key=_text), 1)
    }


def _key(item: Object, words: "_ClusterNames") -> str:
    """Return what an object is matched by: its name, or for a volume its claim."""
    if item["kind"] == "PersistentVolume" and item["spec"].get("claimRef"):
        return f"PersistentVolume/of {item['spec']['claimRef']['name']}"
    return f"{item['kind']}/{words.replaced(item['metadata']['name'])}"


def _event(event: Object, words: "_ClusterNames") -> tuple[str, Object]:
    """Return the text of an Event, which alone identifies it."""
    about = event["involvedObject"]
    component = (event.get("source") or {}).get("component") or event.get("reportingComponent")
    said = words.replaced(f"{about['kind']}/{about['name']} {event['reason']}: {event['message']}")
    return said, {"type": event["type"], "component": component}


def _body(item: Object, words: "_ClusterNames") -> Object:
    body: Object = _Reduction(item["kind"], words).of(item)
    managers = item["metadata"].get("managedFields") or ()
    body["metadata"]["managedFields"] = sorted(
        {" ".join(filter(None, (m["manager"], m.get("subresource")))) for m in managers}
    )
    return body


class _Reduction:
    """The reduction of one object."""

    def __init__(self, kind: str, words: "_ClusterNames") -> None:
        self._words = words
        self._numbers = NUMBERS.get(kind, frozenset())
        self._left_out = LEFT_OUT | CHANCE.get(kind, frozenset())

    def of(self, value: Json, path: str = "") -> Json:
        """Return the normal form of a value at a path."""
        if path in self._numbers:
            return "(some)"
        if isinstance(value, dict):
            return {
                self._words.replaced(key): self.of(inner, where)
                for key, inner in value.items()
                if (where := f"{path}.{key}" if path else key) not in self._left_out
            }
        if isinstance(value, list):
            return [self.of(inner, f"{path}[]") for inner in value]
        return self._words.replaced(value) if isinstance(value, str) else value


class _ClusterNames:
    """Meanings of the identities, addresses and names of one cluster's objects."""

    def __init__(self, objects: Iterable[Object], namespace: str) -> None:
        self._meaning: dict[str, str] = {namespace: "(namespace)"}
        objects = list(objects)
        for item in objects:
            metadata = item["metadata"]
            name, stem = metadata["name"], metadata.get("generateName", "")
            if stem and name.startswith(stem) and _SUFFIX.fullmatch(name[len(stem) :]):
                self._meaning[name] = f"{stem}*"
            elif _controller(metadata) == "CronJob":
                self._meaning[name] = _MINUTES.sub("-*", name)
        self._compile()
        for item in objects:
            if item["kind"] == "Event":
                continue
            what = _key(item, self)
            self._meaning[item["metadata"]["uid"]] = f"(uid of {what})"
            for address in _addresses(item):
                self._meaning[address] = f"(IP of {what})"
        self._compile()

    def _compile(self) -> None:
        texts = sorted(self._meaning, key=len, reverse=True)
        known = "|".join(map(re.escape, texts))
        before, after = r"(?:(?<![a-zA-Z0-9-])|(?<=pvc-))", r"(?![a-zA-Z0-9])"
        self._known = re.compile(f"{before}(?:{known}){after}")

    def replaced(self, text: str) -> str:
        """Return a text with everything that a cluster gave out replaced by what it stands for."""
        for _ in range(2):  # the name of a CronJob's pod begins with that of its Job
            text = self._known.sub(lambda match: self._meaning[match[0]], text)
        for pattern, instead in PATTERNS:
            text = pattern.sub(instead, text)
        return text


def _controller(metadata: Mapping[str, Any]) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((owner["kind"] for owner in owners if owner.get("controller")), "")


def _addresses(item: Object) -> list[str]:
    if item["kind"] == "Service":
        return [ip for ip in item["spec"].get("clusterIPs") or () if ip != "None"]
    if item["kind"] == "Pod":
        return [each["ip"] for each in (item.get("status") or {}).get("podIPs") or ()]
    return []


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
