"""Request targets by chance: valid ones in every spelling, and those that aim elsewhere.

Owns what the caller has, what the node has beside it, and the finite set of paths that may reach
the kubelet for the caller. None of it is computed by the agent's own code.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from tenancy import wellknown
from tests.support.kubelet_targets import mutate
from tests.support.vnagent.certificates import VC_UID
from tests.support.vnagent.running_agent import OTHER

PODS = {  # name: (UID of the tenant's pod, containers, UID of the super pod)
    "shop": ("aaaaaaaa-0000-4000-8000-000000000001", ("main", "init-1"), "b" * 8),
    "shop.with.dots": ("aaaaaaaa-0000-4000-8000-000000000002", ("main",), "c" * 8),
    "0": ("aaaaaaaa-0000-4000-8000-000000000003", ("x" * 63,), "d" * 8),
}
SUPER = {"web": "default-b41df0-one-web", "kube-system": "default-b41df0-one-kube-system"}
"""The caller's namespaces and what stands for them below."""
FOREIGN = ("default-ffffff-two-web", "kube-system", "default-b41df0-one", "vc-manager")
SEGMENTS = {
    "logs": "containerLogs",
    "exec": "exec",
    "attach": "attach",
    "portforward": "portForward",
    "run": "run",
}
PLAIN = frozenset({"logs", "run"})
"""Those whose answer is one of HTTP. The others switch protocols."""
READS = ("/stats/summary", "/metrics/resource", "/pods", "/runningpods/")
"""What is asked of the kubelet about the whole node, for a caller who gets what is its own."""
KUBELET = [
    *("/pods", "/runningpods/", "/stats/summary", "/stats/container", "/metrics", "/logs/"),
    *("/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/configz", "/spec/"),
    *("/run/web/shop/main", "/checkpoint/web/shop/main", "/debug/pprof/profile", "/flagz"),
    *("/debug/flags/v", "/healthz/ping", "/cri/exec/token", "/statusz", "/logs/kubelet.log"),
]


def super_uid(namespace: str, pod: str) -> str:
    """Return the UID of a super pod."""
    return f"{PODS[pod][2]}-0000-4000-8000-{len(namespace):012d}"


def tenant_uid(namespace: str, pod: str) -> str:
    """Return the UID of a tenant's pod."""
    return PODS[pod][0][:-2] + f"{len(namespace):02d}"


def own_paths() -> frozenset[str]:
    """Return all paths that may reach the kubelet for the caller."""
    found = set()
    for namespace, below in SUPER.items():
        for pod, (_, containers, _) in PODS.items():
            uid = super_uid(namespace, pod)
            found |= {f"/portForward/{below}/{pod}", f"/portForward/{below}/{pod}/{uid}"}
            for container in containers:
                verbs = ("exec", "attach", "run")
                found |= {f"/{verb}/{below}/{pod}/{container}" for verb in verbs}
                found |= {f"/{verb}/{below}/{pod}/{uid}/{container}" for verb in verbs}
                found.add(f"/containerLogs/{below}/{pod}/{container}")
    return frozenset(found)


def pod_list() -> bytes:
    """Return the kubelet's list: the caller's pods, another tenant's, and some of no one."""
    items = []
    for namespace, below in SUPER.items():
        for pod, (_, containers, _) in PODS.items():
            record = {
                wellknown.VC_UID: VC_UID,
                wellknown.UID: tenant_uid(namespace, pod),
                wellknown.NAMESPACE: namespace,
                wellknown.CONTAINERS: ",".join(containers),
            }
            items.append(_item(pod, below, super_uid(namespace, pod), record))
    for number, place in enumerate(FOREIGN):
        uid = f"eeeeeeee-0000-4000-8000-{number:012d}"
        record = {wellknown.VC_UID: OTHER, wellknown.UID: uid, wellknown.NAMESPACE: "web"}
        record[wellknown.CONTAINERS] = "main"
        items.append(_item("shop", place, uid, record if number == 0 else {}))
        items.append(_item("etcd-0", place, uid, {}))
    record = {wellknown.VC_UID: OTHER, wellknown.UID: uid, wellknown.NAMESPACE: "theirs"}
    record[wellknown.CONTAINERS] = "main"
    items.append(_item("shop", "default-ffffff-two-theirs", uid, record))
    return json.dumps({"items": items}).encode()


def whole_answers() -> dict[str, bytes]:
    """Return what a kubelet says of the whole node, everyone's pods included."""
    items = json.loads(pod_list())["items"]
    refs = [{key: item["metadata"][key] for key in ("name", "namespace", "uid")} for item in items]
    places = [f'{{namespace="{ref["namespace"]}",pod="{ref["name"]}"}} 1 1' for ref in refs]
    lines = [*(f"pod_memory_working_set_bytes{place}" for place in places), "scrape_error 0"]
    summary = {"node": {"nodeName": "node-1"}, "pods": [{"podRef": ref} for ref in refs]}
    return {
        "/pods": pod_list(),
        "/runningpods/": pod_list(),
        "/stats/summary": json.dumps(summary).encode(),
        "/metrics/resource": "".join(f"{line}\n" for line in lines).encode(),
    }


def _item(name: str, namespace: str, uid: str, annotations: dict[str, str]) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}, {"name": "mesh"}]}}


@dataclass(frozen=True)
class RequestTry:
    """A request, and what must reach the kubelet for it."""

    kind: str
    method: bytes
    target: bytes
    switches: bool
    wanted: str | None = None
    """The kubelet's target of a valid one, empty for none. None when it need not be valid."""

    @property
    def head(self) -> bytes:
        upgrade = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n" if self.switches else b""
        return b"%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (self.method, self.target, upgrade)


class RequestMaker:
    """Makes requests by chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def valid(self) -> RequestTry:
        """Return one that must be served, spelled in one of the ways in which it may be."""
        chance = self._chance
        if chance.random() < 0.02:
            return RequestTry("valid", b"GET", b"/healthz", switches=False, wanted="")
        if chance.random() < 0.02:
            path = chance.choice((*READS, "/pods/", "/stats/summary/", "/runningpods"))
            return RequestTry("read", b"GET", path.encode(), switches=False, wanted="")
        verb = chance.choice(list(SEGMENTS))
        namespace, pod = chance.choice(list(SUPER)), chance.choice(list(PODS))
        containers = () if verb == "portforward" else (chance.choice(PODS[pod][1]),)
        has_uid = verb != "logs" and chance.random() < 0.5
        above = [SEGMENTS[verb], namespace, pod]
        below = [SEGMENTS[verb], SUPER[namespace], pod]
        if has_uid:
            above.append(tenant_uid(namespace, pod))
            below.append(super_uid(namespace, pod))
        written, wanted = self._query(verb)
        target = "/" + "/".join((*above, *containers)) + (f"?{written}" if written else "")
        kubelet = "/" + "/".join((*below, *containers)) + (f"?{wanted}" if wanted else "")
        is_get = verb == "logs" or (verb != "run" and chance.random() < 0.3)
        method = b"GET" if is_get else b"POST"
        return RequestTry("valid", method, target.encode(), verb not in PLAIN, kubelet)

    def invalid(self) -> RequestTry:
        """Return one that is damaged, or aims at what is not the caller's."""
        kinds = (self._damaged, self._damaged, self._foreign, self._unlisted, self._noise)
        return self._chance.choice((*kinds, self._absolute, self._odd_method))()

    def _damaged(self) -> RequestTry:
        valid = self.valid()
        return RequestTry(
            "damaged", valid.method, mutate(self._chance, valid.target), valid.switches
        )

    def _foreign(self) -> RequestTry:
        """Every part may be another's. At least one is."""
        chance = self._chance
        namespace = chance.choice((*FOREIGN, *SUPER.values(), "web", "theirs", "one-web", "d"))
        pod, container = chance.choice(("shop", "etcd-0", "shop2")), chance.choice(("main", "mesh"))
        if (namespace, pod, container) == ("web", "shop", "main") or namespace == "kube-system":
            pod = "etcd-0"  # the caller has a namespace of this name
        verb = chance.choice(list(SEGMENTS))
        parts = [SEGMENTS[verb], namespace, pod]
        if verb != "logs" and chance.random() < 0.5:
            # A wrong UID is enough to aim at another pod.
            parts[1:3] = chance.choice((["web", "shop"], [namespace, pod]))
            uids = (OTHER, VC_UID, super_uid("web", "shop"), tenant_uid("kube-system", "shop"))
            parts.append(chance.choice(uids))
        elif verb == "portforward" and namespace == "web":
            parts[2] = "etcd-0"
        if verb != "portforward":
            parts.append(container)
        target = "/" + "/".join(parts) + {"exec": "?command=id", "run": "?cmd=id"}.get(verb, "")
        method = b"POST" if verb == "run" else b"GET"
        return RequestTry("foreign", method, target.encode(), verb not in PLAIN, "")

    def _unlisted(self) -> RequestTry:
        path = self._chance.choice(KUBELET).encode()
        if self._chance.random() < 0.5:
            path = mutate(self._chance, path)
        return RequestTry("unlisted", self._chance.choice((b"GET", b"POST")), path, switches=False)

    def _noise(self) -> RequestTry:
        size = self._chance.choice((0, 1, 8, 60, 300, 3000))
        start = self._chance.choice((b"", b"/", b"/exec/", b"/containerLogs/web/"))
        return RequestTry("noise", b"GET", start + self._chance.randbytes(size), switches=False)

    def _absolute(self) -> RequestTry:
        valid, chance = self.valid(), self._chance
        before = (b"http://kubelet:10250", b"https://a@b", b"//", b"/.", b"*", b"/x/..", b"%2f")
        return RequestTry(
            "absolute", valid.method, chance.choice(before) + valid.target, valid.switches
        )

    def _odd_method(self) -> RequestTry:
        valid, chance = self.valid(), self._chance
        methods = (b"PUT", b"HEAD", b"CONNECT", b"get", b"", b"POST /pods HTTP/1.1\r\nX:", b"\0")
        return RequestTry("method", chance.choice(methods), valid.target, valid.switches)

    def _query(self, verb: str) -> tuple[str, str]:
        """Return a query as a caller writes it, and as the kubelet must get it."""
        chance = self._chance
        options = {
            "logs": self._log_options,
            "portforward": self._ports,
            "run": self._command,
        }.get(verb, self._streams)
        pairs = options()
        chance.shuffle(pairs)
        if verb == "exec":
            words = [self._word() for _ in range(chance.randint(1, 4))]
            pairs += [("command", word, word) for word in words]
        if chance.random() < 0.3:
            pairs.insert(0, ("pretty", "true", None))
        written = "&".join(f"{key}={self._spell(value)}" for key, value, _ in pairs)
        wanted = "&".join(f"{key}={quote_plus(to)}" for key, _, to in pairs if to is not None)
        return written, wanted

    def _streams(self) -> list[tuple[str, str, str | None]]:
        return [
            (key, value, "1" if value in ("1", "true") else None)
            for key in ("input", "output", "error", "tty")
            if (value := self._chance.choice(("", "1", "true", "0", "false")))
        ]

    def _log_options(self) -> list[tuple[str, str, str | None]]:
        chance = self._chance
        pairs: list[tuple[str, str, str | None]] = [
            (key, value, "true" if value in ("1", "true") else None)
            for key in ("follow", "previous", "timestamps")
            if (value := chance.choice(("", "1", "true", "0", "false")))
        ]
        for key in ("sinceSeconds", "tailLines", "limitBytes"):
            if chance.random() < 0.3:
                number = str(chance.choice((1, 7, 2**31, 2**63 - 1)))
                pairs.append((key, number, number))
        if chance.random() < 0.3 and all(key != "sinceSeconds" for key, _, _ in pairs):
            moment = f"20{chance.randint(10, 40)}-01-02T15:04:05.{chance.randint(1, 999)}+02:00"
            pairs.append(("sinceTime", moment, moment))
        return pairs

    def _ports(self) -> list[tuple[str, str, str | None]]:
        if self._chance.random() < 0.5:
            return []
        ports = ",".join(str(self._chance.randint(1, 65535)) for _ in range(3))
        return [("port", ports, ports)]

    def _command(self) -> list[tuple[str, str, str | None]]:
        command = f"id {self._word()}"
        return [("cmd", command, command)]

    def _word(self) -> str:
        letters = "abz09 -_.~/\\%+&=;?#'\"$\n\u00e4\u4e2d"
        return "".join(self._chance.choice(letters) for _ in range(self._chance.randint(0, 12)))

    def _spell(self, value: str) -> str:
        spell: Callable[[str], str] = self._chance.choice(
            (quote_plus, lambda text: quote(text, safe=""), _every_byte)
        )
        return spell(value)


def _every_byte(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())
