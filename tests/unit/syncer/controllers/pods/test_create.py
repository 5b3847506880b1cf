"""Requests that are not synced to targets are refused by the target of the pod."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from syncer.controllers.pods import create
from syncer.model.rejections import RejectedError

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "web"}, "spec": {"containers": [], **spec}}


def session(target: object) -> Any:
    return SimpleNamespace(is_home=target is None, name="c2" if target else "home")


@pytest.mark.parametrize("spec", [{"volumes": [CLAIM]}, {"runtimeClassName": "kata"}])
def test_a_pod_that_needs_what_is_at_home_is_refused_elsewhere(spec):
    with pytest.raises(RejectedError) as refused:
        create._refuse_home_only(pod(**spec), session(object()))
    assert "rule target" in str(refused.value)
    assert "runs in c2" in str(refused.value)


def test_at_home_and_without_such_needs_nothing_is_refused():
    create._refuse_home_only(pod(volumes=[CLAIM]), session(None))
    create._refuse_home_only(pod(), session(object()))
