"""Generated pods, judged by our field rules the same as by Pod Security admission itself.

The judge is the package of checks of Kubernetes (`tools/testbed/gomod/podsecurity`). At the level
baseline our rules alone decide. At the level restricted they decide together with the admission of
the super cluster, which judges the super pod. `DIFFERENCES` lists every way in which both may
differ, and each has to occur.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.pods import ephemeral_containers, pod_build
from tenancy.policies import SecurityLevel, TenantPolicySpec, parse_tenant_policy
from tests.support.syncer.pods import FACTS, build, pod
from tools.testbed.artifacts import binaries

Object = dict[str, Any]

SEED = 30
QUICK = 4_000
THOROUGH = 100_000
BATCH = 5_000
"""Pods of one call of the judge."""

APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/main"


class Verdict(NamedTuple):
    """Reasons of Pod Security admission against a pod, by level. Empty lists allow it."""

    baseline: list[str]
    restricted: list[str]


def judged(pods: list[Object]) -> list[Verdict]:
    """Return the verdicts of Pod Security admission."""
    done = subprocess.run(
        [str(binaries.path("podsecurity"))],
        input="".join(f"{json.dumps(each)}\n" for each in pods),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = [Verdict(**json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(pods)
    return found


# --- pods -----------------------------------------------------------------------------------------

PROFILES: tuple[Object, ...] = (
    {"type": "RuntimeDefault"},
    {"type": "Unconfined"},
    {"type": "Localhost", "localhostProfile": "own.json"},
)
LABELS: tuple[Object, ...] = (
    *({"type": each} for each in ("", "container_t", "container_engine_t", "spc_t")),
    *({"level": "s0:c1,c2"}, {"user": "system_u"}, {"role": "system_r"}),
)
WINDOWS: tuple[Object, ...] = ({"hostProcess": True}, {"hostProcess": False}, {})
OF_BOTH: Mapping[str, tuple[Any, ...]] = {
    "runAsNonRoot": (True, False),
    "runAsUser": (0, 1000),
    "runAsGroup": (0, 1000),
    "seccompProfile": PROFILES,
    "appArmorProfile": PROFILES,
    "seLinuxOptions": LABELS,
    "windowsOptions": WINDOWS,
}
"""Fields of a security context, of a pod and of a container."""
OF_POD_CONTEXT: Mapping[str, tuple[Any, ...]] = {
    **OF_BOTH,
    "fsGroup": (0, 1000),
    "supplementalGroups": ([0], [1000]),
    "sysctls": tuple(
        [{"name": name, "value": "1"}]
        for name in (
            *("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies"),
            *("kernel.msgmax", "net.core.somaxconn", "net.ipv4.ip_forward"),
        )
    ),
}
OF_CONTAINER_CONTEXT: Mapping[str, tuple[Any, ...]] = {
    **OF_BOTH,
    "allowPrivilegeEscalation": (True, False),
    "privileged": (True, False),
    "procMount": ("Default", "Unmasked"),
    "readOnlyRootFilesystem": (True, False),
    "capabilities": (
        {"drop": ["ALL"]},
        {"drop": ["NET_RAW"]},
        {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        {"drop": ["ALL"], "add": ["CHOWN"]},
        {"add": ["NET_ADMIN"]},
        {"add": ["ALL"]},
        {"add": ["NET_RAW"]},
        {"add": ["AUDIT_WRITE", "SYS_PTRACE"]},
        {},
    ),
}
HANDLERS: tuple[Object, ...] = (
    {"exec": {"command": ["true"]}},
    *({"httpGet": {"port": 1, **host}} for host in ({}, {"host": ""}, {"host": "10.0.0.1"})),
    *({"tcpSocket": {"port": 1, **host}} for host in ({}, {"host": "127.0.0.1"})),
)
OF_CONTAINER: Mapping[str, tuple[Any, ...]] = {
    "ports": (
        [{"containerPort": 80}],
        [{"containerPort": 80, "hostPort": 0}],
        [{"containerPort": 80, "hostPort": 80}],
        [{"containerPort": 80, "hostIP": "10.0.0.1"}],
        [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
    ),
    "livenessProbe": HANDLERS,
    "readinessProbe": HANDLERS,
    "startupProbe": HANDLERS,
    "lifecycle": tuple({when: each} for when in ("preStop", "postStart") for each in HANDLERS),
}
OF_POD: Mapping[str, tuple[Any, ...]] = {
    "hostNetwork": (True, False),
    "hostPID": (True, False),
    "hostIPC": (True, False),
    "hostUsers": (True, False),
    "shareProcessNamespace": (True, False),
    "os": ({"name": "linux"}, {"name": "windows"}),
}
VOLUMES: tuple[Object, ...] = (
    {"emptyDir": {}},
    {"configMap": {"name": "c"}},
    {"secret": {"secretName": "s"}},
    {"projected": {"sources": [{"secret": {"name": "s"}}]}},
    {"projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}},
    {"downwardAPI": {"items": []}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"hostPath": {"path": "/var/log"}},
    {"image": {"reference": "i"}},
    {"csi": {"driver": "d.example"}},
    {"nfs": {"server": "s", "path": "/"}},
    {"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}},
    {"gitRepo": {"repository": "r"}},
)
ANNOTATIONS = ("runtime/default", "localhost/own", "unconfined", "")


def containers(source: random.Random, names: tuple[str, ...]) -> list[Object]:
    """Return containers, mostly as the level restricted wants them."""
    found: list[Object] = []
    for name in names:
        context: Object = {}
        if source.random() < 0.8:
            context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        made: Object = {"name": name, "image": "i"}
        alter(source, context, OF_CONTAINER_CONTEXT, 0.12)
        alter(source, made, OF_CONTAINER, 0.05)
        found.append({**made, "securityContext": context} if context else made)
    return found


def alter(
    source: random.Random, place: Object, table: Mapping[str, tuple[Any, ...]], share: float
) -> None:
    """Set some fields of an object to values of a table."""
    for field, values in table.items():
        if source.random() < share / 2:
            place[field] = json.loads(json.dumps(source.choice(values)))


def generated(source: random.Random) -> Object:
    """Return a pod. About a third of them fit each level."""
    context: Object = {}
    if source.random() < 0.8:
        context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    alter(source, context, OF_POD_CONTEXT, 0.08)
    spec: Object = {"containers": containers(source, ("main", "side")[: source.choice((1, 1, 2))])}
    if source.random() < 0.2:
        spec["initContainers"] = containers(source, ("init",))
    if context:
        spec["securityContext"] = context
    alter(source, spec, OF_POD, 0.08)
    if source.random() < 0.3:
        volume = json.loads(json.dumps(source.choice(VOLUMES)))
        spec["volumes"] = [{"name": "v", **volume}]
    annotations = {APP_ARMOR: source.choice(ANNOTATIONS)} if source.random() < 0.05 else {}
    return pod({"annotations": annotations}, **spec)


# --- differences ----------------------------------------------------------------------------------


def contexts(own: Object) -> Iterator[Object]:
    """Yield the security contexts of a pod."""
    spec = own["spec"]
    yield spec.get("securityContext") or {}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for each in spec.get(kind) or ():
            yield each.get("securityContext") or {}


def has_local_profile(own: Object) -> bool:
    return any(
        (each.get(field) or {}).get("type") == "Localhost"
        for each in contexts(own)
        for field in ("seccompProfile", "appArmorProfile")
    )


def has_windows(own: Object) -> bool:
    return any(each.get("windowsOptions") is not None for each in contexts(own))


def is_windows(own: Object) -> bool:
    return (own["spec"].get("os") or {}).get("name") == "windows"


def has_user_namespace(own: Object) -> bool:
    return own["spec"].get("hostUsers") is False


def has_host_address(own: Object) -> bool:
    return any(
        port.get("hostIP")
        for kind in ("containers", "initContainers", "ephemeralContainers")
        for each in own["spec"].get(kind) or ()
        for port in each.get("ports") or ()
    )


def has_source(*names: str) -> Callable[[Object], bool]:
    def found(own: Object) -> bool:
        return any(name in each for each in own["spec"].get("volumes") or () for name in names)

    return found


def has_trust_bundle(own: Object) -> bool:
    return "clusterTrustBundle" in json.dumps(own["spec"].get("volumes") or [])


class Difference(NamedTuple):
    """Pods that our rule refuses and Pod Security admission allows, with the reason."""

    rule: str
    applies: Callable[[Object], bool]
    reason: str


DIFFERENCES = (
    Difference("profile", has_local_profile, "names a file on the node, which is not the tenant's"),
    Difference("windows", has_windows, "Windows nodes are not offered"),
    Difference("os", is_windows, "Windows nodes are not offered"),
    Difference(
        "proc-mount",
        has_user_namespace,
        "allowed in a user namespace only. A node without support would open /proc",
    ),
    Difference("host-port", has_host_address, "an address of a node, useless without hostPort"),
    Difference(
        "volume-source",
        has_source("nfs", "iscsi", "gitRepo", "csi", "image"),
        "a volume that is not a claim. TenantPolicy fields open csi and image",
    ),
    Difference("projected-source", has_trust_bundle, "would show bundles of the nodes"),
)
LEFT_OUT = ("forbidden AppArmor profile", "forbidden AppArmor profiles")
"""Reasons of Pod Security admission that come from an annotation which is left out in the super
pod. We allow the pod, and it runs without the annotation."""


def policy(level: SecurityLevel) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "p"}, "spec": {"security": {"level": level}}})


POLICIES = {level: policy(level) for level in ("baseline", "restricted")}


def ours(own: Object, level: str) -> tuple[Object | None, frozenset[str]]:
    """Return the super pod, or the rules that refuse the pod."""
    try:
        facts = FACTS._replace(policy=POLICIES[level])
        return pod_build.build_super_pod(own, facts).pod, frozenset()
    except RejectedError as rejected:
        return None, frozenset(problem.rule for problem in rejected.problems)


def explained(own: Object, rules: frozenset[str]) -> frozenset[str]:
    """Return the rules of these that a listed difference explains.

    The level restricted has exceptions for Windows pods, which no API server accepts with the
    fields that they are about. The rule `os` alone refuses all of them.
    """
    if is_windows(own):
        return rules if "os" in rules else frozenset()
    return frozenset(each.rule for each in DIFFERENCES if each.rule in rules and each.applies(own))


def compared(count: int, seed: int) -> Counter[str]:
    """Compare verdicts on generated pods. Returns how often each outcome occurred."""
    source, seen = random.Random(seed), Counter[str]()  # noqa: S311 - the same at each run
    for start in range(0, count, BATCH):
        pods = [generated(source) for _ in range(min(BATCH, count - start))]
        theirs = judged(pods)
        for level in ("baseline", "restricted"):
            results = [ours(own, level) for own in pods]
            built = [made for made, _ in results if made is not None]
            of_built = iter(judged(built))
            for own, verdict, (made, rules) in zip(pods, theirs, results, strict=True):
                reasons = getattr(verdict, level)
                if made is None:
                    found = explained(own, rules) if not reasons else rules
                    assert found == rules, (level, rules - found, own)
                    counted = frozenset({"os"}) if is_windows(own) else rules
                    seen.update({f"stricter {rule}": 1 for rule in counted if not reasons})
                    seen[f"{level} refused"] += 1
                    continue
                second = next(of_built)
                # Our rules alone keep the level baseline, so that the second check never refuses.
                assert not second.baseline, (level, second, own)
                final = getattr(second, level)
                if final:
                    assert set(final) <= set(reasons), (level, final, reasons, own)
                    seen[f"{level} refused by the admission"] += 1
                    continue
                assert set(reasons) <= set(LEFT_OUT), (level, reasons, own)
                if reasons:
                    assert own["metadata"]["annotations"].get(APP_ARMOR) == "unconfined", own
                    seen["left out"] += 1
                seen[f"{level} allowed"] += 1
    return seen


def check(count: int, seed: int) -> None:
    """Compare, and find each outcome and each listed difference among the pods."""
    seen = compared(count, seed)
    for level in ("baseline", "restricted"):
        assert seen[f"{level} allowed"] > count / 20, seen
        assert seen[f"{level} refused"] > count / 20, seen
    assert not seen["baseline refused by the admission"]
    assert seen["restricted refused by the admission"] > count / 20, seen
    assert {name for name in seen if name.startswith("stricter")} == {
        f"stricter {each.rule}" for each in DIFFERENCES
    }
    assert seen["left out"]


def test_pods_are_judged_as_pod_security_admission_judges_them():
    """SEC-56: some thousands of pods."""
    check(QUICK, SEED)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_pods_are_judged_as_pod_security_admission_judges_them():
    """SEC-56: at full length."""
    check(THOROUGH, SEED + 1)


def test_debug_containers_are_judged_as_pod_security_admission_judges_them():
    """SEC-56: ephemeral containers, too."""
    source, seen = random.Random(SEED), Counter[bool]()  # noqa: S311 - the same at each run
    wanted = [containers(source, ("debugger",))[0] for _ in range(1_000)]
    theirs = judged([pod(ephemeralContainers=[each]) for each in wanted])
    for item, verdict in zip(wanted, theirs, strict=True):
        own = pod(ephemeralContainers=[item])
        _, problems = ephemeral_containers.split_addable(own, build(pod()), FACTS)
        rules = frozenset(problem.rule for problem in problems)
        seen[not rules] += 1
        if rules:
            assert verdict.baseline or explained(own, rules) == rules, item
        else:
            assert not verdict.baseline, item
    assert min(seen.values()) > 50, seen
