"""No leaf outside of the table ever reaches the super cluster, whatever a tenant's pod has."""

from __future__ import annotations

from hypothesis import given, settings

from syncer.rules.pods.pod_fields import POD_SPEC
from tests.support import built_pods
from tests.support.schemas import Node, of_table
from tests.unit.syncer.special.pods import FACTS

_TEXTS = Node("list", item=lambda: Node("text"))
_OPTION = Node("object", fields={"name": lambda: Node("text"), "value": lambda: Node("text")})
_DNS = Node(
    "object",
    fields={
        "nameservers": lambda: _TEXTS,
        "options": lambda: Node("list", item=lambda: _OPTION),
        "searches": lambda: _TEXTS,
    },
)
_TABLE = of_table(POD_SPEC)
SPEC = Node("object", fields={**_TABLE.fields, "dnsConfig": lambda: _DNS})
METADATA = Node("object", fields={name: lambda: Node("map") for name in ("labels", "annotations")})


@settings(max_examples=150, deadline=None)
@given(pod=built_pods.pods(SPEC, METADATA))
def test_what_is_built_has_only_leaves_of_the_table(pod):
    built_pods.check(pod, FACTS)
