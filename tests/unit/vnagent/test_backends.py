"""The parts of an agent: its files, its jobs, and their end."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.vnagent.test_settings import CHART
from vnagent import backends, settings
from vnagent.authz import metrics
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer

KEPT = ["UpstreamServer.keep_warm", "NodeUpstream.run"]
TOLD = [*KEPT, "UpstreamEvents.run"]
REGISTRATION = "cccccccc-0000-4000-8000-000000000000"
TARGET = {"TARGET_SERVER": "https://10.0.0.5:6443", "TARGET_REGISTRATION": REGISTRATION}


def way(folder: Path, **told: str) -> backends.Backend:
    """Return what an agent that was told so is made of."""
    environment: Mapping[str, str] = {**CHART, **told}
    given = settings.parse_settings([], environment, "v1")
    token, authorities = WatchedFile(folder / "token"), WatchedFile(folder / "ca.crt")
    buffer = ReceiveBuffer()
    api = HttpsClient(
        ServerAddress("10.96.0.1", 443, "10.96.0.1"),
        authorities=authorities,
        token=token,
        buffer=buffer,
    )
    return backends.create_backend(given, api, token, buffer)


def jobs(found: backends.Backend) -> list[str]:
    names = []
    for job in found.create_jobs():
        names.append(job.__qualname__)
        job.close()
    return names


@pytest.mark.parametrize(
    ("wish", "files", "kept"), [("auto", 1, TOLD), ("kubelet", 1, KEPT), ("apiserver", 0, TOLD)]
)
def test_a_nodes_agent_needs_who_vouches_for_its_kubelet(tmp_path, wish, files, kept):
    """Unless it never asks that. The way is logged if it is not the usual one."""
    found = way(tmp_path, UPSTREAM=wish)
    assert (len(found.required_files), len(found.optional_files)) == (files, 0)
    assert jobs(found) == kept


def test_other_authorities_have_the_kubelet_looked_at(tmp_path, monkeypatch):
    """Other changes do not."""
    found = way(tmp_path, UPSTREAM="auto")
    assert isinstance(found, backends.NodeBackend)
    looks: list[None] = []
    monkeypatch.setattr(found.upstream, "probe_soon", lambda: looks.append(None))
    found.handle_file_changed(WatchedFile(tmp_path / "token"))
    assert not looks
    found.handle_file_changed(found.required_files[0])
    assert len(looks) == 1


def test_the_end_drops_what_was_kept_warm(tmp_path, monkeypatch):
    """Otherwise the agent would leave connections to its kubelet open."""
    found = way(tmp_path, UPSTREAM="kubelet")
    assert isinstance(found, backends.NodeBackend)
    drops: list[None] = []
    monkeypatch.setattr(found.upstream.kubelet, "drop_warm", lambda: drops.append(None))
    found.close()
    assert len(drops) == 1


def test_the_agent_of_a_target_waits_for_nothing(tmp_path):
    """Its credential may come later, and it keeps nothing of a kubelet's."""
    found = way(tmp_path, **TARGET)
    assert isinstance(found, backends.TargetBackend)
    assert (len(found.required_files), len(found.optional_files)) == (0, 2)
    assert jobs(found) == []
    found.handle_file_changed(found.optional_files[0])
    found.close()


@pytest.mark.parametrize(
    ("upstream", "shown", "files"), [("apiserver", "apiserver", 2), ("kubelet", "kubelet", 3)]
)
def test_the_agent_of_a_target_shows_which_way_it_goes(tmp_path, upstream, shown, files):
    """It reads the authorities of kubelets only if it connects to kubelets."""
    found = way(tmp_path, **TARGET, UPSTREAM=upstream)
    assert (len(found.required_files), len(found.optional_files)) == (0, files)
    (family,) = metrics._UPSTREAM.collect()
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"mode": shown, "reason": "configured"}, 1)
    assert isinstance(found, backends.TargetBackend)
    straight = found.upstream._kubelets
    read = [] if straight is None else [straight._authorities.path.name, straight._token.path.name]
    assert read == (["kubelet-ca.crt", "token"] if shown == "kubelet" else [])
