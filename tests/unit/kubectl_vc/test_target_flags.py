"""Flags of the verbs about targets."""

from __future__ import annotations

from typing import get_args

from kubectl_vc.target_flags import SuperClusterMode
from tenancy import super_clusters


def test_the_flag_has_the_modes_that_there_are():
    assert {each.value for each in SuperClusterMode} == {*get_args(super_clusters.AccessMode)}
