"""Objects as large and as oddly called as the API takes them: they arrive byte for byte."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SyncerWorld
from tests.support.eventually import eventually

pytestmark = pytest.mark.thorough

LIMIT = 1024 * 1024
"""Bytes of data that a ConfigMap or a Secret may hold."""
MANY = 1000
KEYS = 5000
BYTES = bytes(range(256))
"""Every byte there is, as a text that is no UTF-8."""
DOTTED = ".".join(("n" * 63, "a" * 63, "m" * 63, "e" * 61))
"""253 characters: the longest name of an object."""
LABEL = "l" * 63
"""The longest DNS label."""


def encoded(data: bytes) -> str:
    """Return bytes as JSON carries them."""
    return base64.b64encode(data).decode()


def mounting(kind: str, name: str) -> Object:
    """Return a pod that refers to a ConfigMap or a Secret of its own name."""
    source = {"name": name} if kind == "configMap" else {"secretName": name}
    return pod(name, volumes=[{"name": "v", kind: source}])


_NOISE = random.Random(4).randbytes(LIMIT)  # noqa: S311 - the same at each run


@pytest.mark.parametrize(
    ("data", "is_binary"),
    [
        pytest.param({"whole": "x" * (LIMIT - 5)}, False, id="one of a mebibyte"),
        pytest.param(
            {f"key-{number:04}": f"value {number}" for number in range(KEYS)}, False, id="5,000"
        ),
        pytest.param({LABEL * 4 + "k": "the longest key"}, False, id="a key of 253"),
        pytest.param({"text": "\u00e9\u4e2d\U0001f600\u0000\u001f\u2028\r\n\t"}, False, id="odd"),
        pytest.param({"blob": encoded(BYTES)}, True, id="no UTF-8"),
        pytest.param({"blob": encoded(_NOISE[: LIMIT - 4])}, True, id="a mebibyte of noise"),
    ],
)
async def test_configuration_arrives_byte_for_byte(
    synced: SyncerWorld, data: dict[str, str], is_binary: bool
):
    space = await synced.namespace()
    maps: Object = {"binaryData" if is_binary else "data": data}
    secrets = data if is_binary else {key: encoded(value.encode()) for key, value in data.items()}
    await synced.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "map"}, **maps}, namespace=space
    )
    await synced.tenant_client.create(
        SECRETS, {"metadata": {"name": "secret"}, "data": secrets}, namespace=space
    )
    await synced.tenant_client.create(PODS, mounting("configMap", "map"), namespace=space)
    await synced.tenant_client.create(PODS, mounting("secret", "secret"), namespace=space)
    for name in ("map", "secret"):
        await eventually(lambda n=name: synced.twin(PODS, space, n), within=30)
    found = await synced.twin(CONFIG_MAPS, space, "map")
    assert {key: found.get(key) for key in ("data", "binaryData")} == {
        "data": None,
        "binaryData": None,
        **maps,
    }
    assert (await synced.twin(SECRETS, space, "secret"))["data"] == secrets
    # What was carried whole is recognised as such, and not written again.
    since = synced.mark("super")
    await synced.tenant_client.patch(
        PODS, "map", {"metadata": {"labels": {"a": "b"}}}, namespace=space
    )
    await eventually(
        lambda: synced.twin(PODS, space, "map"),
        until=lambda body: body["metadata"]["labels"].get("a") == "b",
    )
    await synced.idle()
    assert [
        w for w in synced.writes("super", since) if w.resource in ("configmaps", "secrets")
    ] == []


async def test_a_thousand_variables_and_envfrom_of_five_thousand_keys(synced: SyncerWorld):
    space = await synced.namespace()
    data = {f"KEY_{number:04}": str(number) for number in range(KEYS)}
    await synced.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": "many"}, "data": data}, namespace=space
    )
    env = [{"name": f"A_{number:04}", "value": f"v{number}" * 20} for number in range(MANY)]
    container = {
        "name": LABEL,
        "image": "registry.example/app:1",
        "env": env,
        "envFrom": [{"configMapRef": {"name": "many"}}],
    }
    await synced.tenant_client.create(PODS, pod("web", containers=[container]), namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "web"), within=30)
    made = twin["spec"]["containers"][0]
    assert made["name"] == LABEL
    assert made["env"][-MANY:] == env
    assert made["envFrom"][1:] == container["envFrom"]
    assert (await synced.twin(CONFIG_MAPS, space, "many"))["data"] == data


def _claim(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


async def test_the_longest_names(synced: SyncerWorld):
    """Names of a namespace, a pod, its mounts, a Service, a port, a label and its value."""
    space = await synced.namespace(f"{LABEL[:-1]}a")
    long_label = {f"{'d' * 63}.{'e' * 63}.{'f' * 63}.{'g' * 61}/{LABEL}": LABEL}
    await synced.tenant_client.create(
        CONFIG_MAPS, {"metadata": {"name": DOTTED}, "data": {"a": "b"}}, namespace=space
    )
    await synced.tenant_client.create(
        SECRETS, {"metadata": {"name": DOTTED}, "stringData": {"a": "b"}}, namespace=space
    )
    await synced.tenant_client.create(PERSISTENT_VOLUME_CLAIMS, _claim(DOTTED), namespace=space)
    service: Any = {
        "metadata": {"name": LABEL, "labels": long_label},
        "spec": {"selector": long_label, "ports": [{"name": "p" * 63, "port": 80}]},
    }
    await synced.tenant_client.create(SERVICES, service, namespace=space)
    body = pod(
        DOTTED,
        hostname=LABEL,
        subdomain=LABEL,
        volumes=[
            {"name": LABEL, "configMap": {"name": DOTTED}},
            {"name": "secret", "secret": {"secretName": DOTTED}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": DOTTED}},
        ],
    )
    body["metadata"]["labels"] = long_label
    made = await eventually(lambda: synced.tenant_client.create(PODS, body, namespace=space))
    twin = await eventually(lambda: synced.twin(PODS, space, DOTTED), within=30)
    assert len(twin["metadata"]["namespace"]) == len(LABEL)
    carried = {wellknown.translate_label_key(key): value for key, value in long_label.items()}
    assert carried.items() <= twin["metadata"]["labels"].items()
    spec = twin["spec"]
    assert (spec["hostname"], spec["subdomain"]) == (LABEL, LABEL)
    own = [volume for volume in made["spec"]["volumes"] if "projected" not in volume]
    assert [volume for volume in spec["volumes"] if "projected" not in volume] == own
    for resource in (CONFIG_MAPS, SECRETS, PERSISTENT_VOLUME_CLAIMS):
        await eventually(lambda r=resource: synced.twin(r, space, DOTTED))
    super_service = await eventually(lambda: synced.twin(SERVICES, space, LABEL))
    assert super_service["spec"]["selector"].items() >= carried.items()
    assert super_service["spec"]["ports"][0]["name"] == "p" * 63


FULL = 256 * 1024
"""Bytes of the annotations of an object."""
_FILES = [
    {"path": "all", "fieldRef": {"fieldPath": "metadata.annotations"}},
    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
]


async def test_objects_with_all_the_annotations_that_the_api_takes(synced: SyncerWorld):
    """Added annotations have no room, so the tenant's largest ones stay in the tenant."""
    space = await synced.namespace()
    full = {"large": "v" * (FULL - 5 - 6), "small": "s"}
    for resource, fields in (
        (CONFIG_MAPS, {"data": {"a": "b"}}),
        (SECRETS, {"stringData": {"a": "b"}}),
        (PERSISTENT_VOLUME_CLAIMS, {"spec": _claim("c")["spec"]}),
        (NETWORK_POLICIES, {"spec": {"podSelector": {}}}),
    ):
        metadata = {"name": "full", "annotations": full}
        await synced.tenant_client.create(
            resource, {"metadata": metadata, **fields}, namespace=space
        )
    volumes = [
        {"name": "down", "downwardAPI": {"items": _FILES}},
        {"name": "map", "configMap": {"name": "full"}},
        {"name": "secret", "secret": {"secretName": "full"}},
    ]
    body = pod("full", volumes=volumes)
    body["metadata"]["annotations"] = {"large": "v" * 210_000, "small": "s"}
    await synced.tenant_client.create(PODS, body, namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "full"), within=30)
    annotations = twin["metadata"]["annotations"]
    assert ("large" in annotations, annotations["small"]) == (False, "s")
    assert 'large="vvv' in annotations["mirror.tenancy.x-k8s.io/annotations"]
    for resource in (CONFIG_MAPS, SECRETS, PERSISTENT_VOLUME_CLAIMS, NETWORK_POLICIES):
        found = await eventually(lambda r=resource: synced.twin(r, space, "full"))
        assert "large" not in found["metadata"]["annotations"]
        assert found["metadata"]["annotations"]["small"] == "s"
    told = [each["message"] for each in await synced.events(space)]
    assert any("larger than 262144 bytes" in each for each in told)
    # It is at rest, and a change that fits is carried.
    since = synced.mark("super")
    await synced.idle()
    assert synced.writes("super", since) == []
    change = {"metadata": {"annotations": {"large": "short", "small": None}}}
    await synced.tenant_client.patch(PODS, "full", change, namespace=space)
    await eventually(
        lambda: synced.twin(PODS, space, "full"),
        until=lambda found: found["metadata"]["annotations"].get("large") == "short",
    )
    service: Any = {
        "metadata": {"name": "full", "annotations": {**full}},
        "spec": {"ports": [{"port": 80}]},
    }
    await synced.tenant_client.create(SERVICES, service, namespace=space)
    await eventually(
        lambda: synced.events(space),
        until=lambda found: any("the limit is 262144" in each["message"] for each in found),
    )
    assert not await synced.has_twin(SERVICES, space, "full")
