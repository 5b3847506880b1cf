"""The user of a command adds itself to the readers of a kubeconfig, and waits for its right."""

from types import SimpleNamespace
from typing import Any

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs import kubeconfig_readers
from kubeio import errors
from tests.support.kubeio.described_requests import REQUEST

ANN = {"kind": "User", "name": "ann"}
TEAM = {"kind": "Group", "name": "team-a"}


class OneVirtualCluster:
    """An API server with one VirtualCluster that others change meanwhile."""

    def __init__(self, conflicts: int = 0, denials: int = 0) -> None:
        self.conflicts, self.denials = conflicts, denials
        self.written: list[Any] = []
        self.body = {
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
            "spec": {"kubeconfigReaders": [TEAM]},
        }

    async def patch(self, *_: Any, **__: Any) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise errors.from_status(409, {"reason": "Conflict", "message": "m"}, request=REQUEST)
        self.written.append(_[2])

    async def get(self, *_: Any, **__: Any) -> Any:
        if self.denials:
            self.denials -= 1
            raise errors.from_status(403, {"reason": "Forbidden", "message": "m"}, request=REQUEST)
        return self.body


def connection(client: OneVirtualCluster) -> Any:
    return SimpleNamespace(super_client=client)


def test_a_reader_is_added_once():
    assert kubeconfig_readers.with_reader(None, "ann") == [ANN]
    assert kubeconfig_readers.with_reader([TEAM], "ann") == [TEAM, ANN]
    assert kubeconfig_readers.with_reader([ANN, TEAM], "ann") == [ANN, TEAM]


async def test_the_readers_of_others_stay():
    client = OneVirtualCluster(conflicts=1)
    await kubeconfig_readers.add_reader(connection(client), client.body, "ann")
    (patch,) = client.written
    assert patch["spec"] == {"kubeconfigReaders": [TEAM, ANN]}
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "1"}


async def test_a_list_that_never_stands_still_is_an_error():
    client = OneVirtualCluster(conflicts=9)
    with pytest.raises(errors.Conflict):
        await kubeconfig_readers.add_reader(connection(client), client.body, "ann")


async def test_the_right_is_waited_for(monkeypatch):
    monkeypatch.setattr(kubeconfig_readers, "_POLL_SECONDS", 0.0)
    client = OneVirtualCluster(denials=2)
    found = await kubeconfig_readers.wait_for_secret(connection(client), "root", "it")
    assert found is client.body
    monkeypatch.setattr(kubeconfig_readers, "WAIT_SECONDS", -1.0)
    with pytest.raises(CliError, match="Check that vc-manager runs"):
        await kubeconfig_readers.wait_for_secret(
            connection(OneVirtualCluster(denials=9)), "root", "it"
        )
