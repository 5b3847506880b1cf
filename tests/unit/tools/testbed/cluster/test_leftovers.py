"""Leftovers of a cluster: namespaces of other programs are not among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.testbed.cluster import leftovers


def test_namespaces_of_containerd_alone_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leftovers, "_NETNS_FOLDER", tmp_path / "absent")
    assert leftovers._netns() == set()
    for name in ("cni-1f2e-0a", "t-shop-node1"):
        (tmp_path / name).touch()
    monkeypatch.setattr(leftovers, "_NETNS_FOLDER", tmp_path)
    assert leftovers._netns() == {"cni-1f2e-0a"}
