"""`kubectl vc debug collect`: the archive, with secrets planted in every place it reads."""

import io
import tarfile
from typing import Any

import pytest

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.debug import debug_bundle
from kubectl_vc.debug.debug_bundle import BundleWriter
from kubeio import errors
from tenancy.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, VIRTUAL_CLUSTERS
from tests.support.kubectl_vc.command_runner import invoke
from tests.support.kubectl_vc.object_faults import virtual_cluster

PLANTED = "hunter2plantedvalue"
POD = {
    "metadata": {"name": "p", "namespace": "x", "annotations": {"token": PLANTED}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "env": [{"name": "PLAIN", "value": PLANTED}],
                "args": [f"--password={PLANTED}"],
                "ports": [{"name": "http", "containerPort": 8080}],
            }
        ]
    },
}
OBJECTS: dict[str, list[dict[str, Any]]] = {
    PODS.kind: [POD],
    CONFIG_MAPS.kind: [{"metadata": {"name": "m"}, "data": {"secret-key": PLANTED, "a": "kept"}}],
    EVENTS.kind: [{"metadata": {"name": "e"}, "message": f"Bearer {PLANTED}"}],
    VIRTUAL_CLUSTERS.kind: [virtual_cluster()],
}


class StubClient:
    """Answers every read, and records the kinds."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.refused: set[str] = set()

    async def version(self) -> str:
        return "v1.36.4"

    async def get(self, resource: Any, *_: Any, **__: Any) -> dict[str, Any]:
        self.read.add(resource.kind)
        if resource is VIRTUAL_CLUSTERS:
            return virtual_cluster()
        raise errors.NotFound("none", status=404, reason="NotFound")

    async def list(self, resource: Any, **_: Any) -> dict[str, Any]:
        self.read.add(resource.kind)
        if resource.kind in self.refused:
            raise errors.Forbidden("no", status=403, reason="Forbidden")
        return {"items": OBJECTS.get(resource.kind, [])}

    async def raw(self, method: str, *_: Any, **__: Any) -> bytes:
        assert method == "GET"
        return f"line\ntoken={PLANTED}\n".encode()


async def collect(name: str = "", **changed: Any) -> tuple[dict[str, str], StubClient, list[str]]:
    """Return the files of an archive by name, the client, and what was not read."""
    client, writer = StubClient(), BundleWriter()
    client.refused = set(changed.get("refused", ()))
    connection = SuperConnection(client, "default", is_explicit=False)  # type: ignore[arg-type]
    unread = await debug_bundle.collect(connection, writer, name, "vc-manager")
    with tarfile.open(fileobj=io.BytesIO(writer.pack())) as archive:
        found = {
            each.name: archive.extractfile(each).read().decode()  # type: ignore[union-attr]
            for each in archive.getmembers()
            if each.isfile()
        }
        assert {each.mode for each in archive.getmembers() if each.isfile()} == {0o600}
    return found, client, unread


@pytest.mark.parametrize("name", ["", "web"])
async def test_no_planted_secret_is_in_the_archive(name):
    """SEC-251."""
    found, client, unread = await collect(name)
    assert unread == []
    assert SECRETS.kind not in client.read
    for path, text in found.items():
        assert PLANTED not in text, path
    assert "kept" in found["vc-debug/components/configmaps.yaml"]
    assert found["vc-debug/components/logs/p/c.log"].startswith("line\n")
    assert "vc-debug/components/metrics/p.txt" in found
    assert "vc-debug/doctor.json" in found
    assert "v1.36.4" in found["vc-debug/version.txt"]
    assert ("vc-debug/tenant/pods.yaml" in found) is (name == "web")


async def test_missing_rights_are_listed_and_stop_nothing():
    found, _, unread = await collect(refused=[PODS.kind])
    assert unread == ["pods in vc-manager (no right)"]
    assert found["vc-debug/not-collected.txt"] == "pods in vc-manager (no right)\n"
    assert "vc-debug/components/pods.yaml" not in found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "-o is missing"),
        (("-o", "/none/x.tar.gz"), 1, "does not exist"),
        (("-o", "/"), 1, "is a directory"),
        (("", "-o", "x.tar.gz"), 2, "NAME is empty"),
    ],
)
def test_bad_input_is_one_clear_sentence(words, code, said):
    done = invoke("debug", "collect", *words)
    assert (done.exit_code, said in done.stderr) == (code, True)
    assert done.stderr.startswith("error: ")
