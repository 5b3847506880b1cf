"""Pods grown along the schema of a real API server: only leaves of the table ever go down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import built_pods
from tests.support.schemas import of_openapi
from tests.support.syncer.pods import FACTS

pytestmark = pytest.mark.thorough

SPEC = {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
METADATA = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
EXAMPLES = 3000


def test_what_is_built_has_only_leaves_of_the_table(definitions: Mapping[str, Any]):
    spec, metadata = of_openapi(definitions, SPEC), of_openapi(definitions, METADATA)
    tried = Counter[bool]()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(pod=st.one_of(*(built_pods.pods(spec, metadata, honest=flag) for flag in (True, False))))
    def build(pod: dict[str, Any]) -> None:
        tried[built_pods.check(pod, FACTS)] += 1

    build()
    assert tried[True] > EXAMPLES / 10, "hardly any pod was built, so that little was proved"
