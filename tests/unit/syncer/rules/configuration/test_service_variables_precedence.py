"""Variables of a starting container by the kubelet's own rules, on a plain cluster and here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncer.rules.configuration import service_variables
from syncer.rules.pods import pod_build
from tenancy import names
from tests.support.syncer.pods import FACTS, pod

Maps = Mapping[str, Mapping[str, str]]
Variables = dict[str, str]
_REFERENCE = re.compile(r"\$(\$|\((\w+)\))")


def start(container: Mapping[str, Any], maps: Maps, services: Mapping[str, str]) -> Variables:
    """Return the variables of a starting container (`makeEnvironmentVariables` of the kubelet)."""
    found: Variables = {}
    for source in container.get("envFrom") or ():
        ref = source["configMapRef"]
        data = maps.get(ref["name"])
        assert data is not None or ref.get("optional"), "a kubelet starts no such container"
        found |= {f"{source.get('prefix', '')}{key}": value for key, value in (data or {}).items()}

    def expand(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] == "$":
                return "$"
            return found.get(match[2], services.get(match[2], match[0]))

        return _REFERENCE.sub(value, text)

    for variable in container.get("env") or ():
        found[variable["name"]] = expand(variable["value"])
    return {**services, **found}


def service(name: str, address: str, port: int, namespace: str = "web") -> dict[str, Any]:
    spec = {"clusterIP": address, "ports": [{"port": port}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


API = service("kubernetes", "10.96.8.1", 443, "default")
KEYS = ["REDIS_PORT", "REDIS_SERVICE_HOST", "KUBERNETES_SERVICE_HOST", "A", "X_A"]
SERVICES = st.lists(
    st.builds(
        service,
        st.sampled_from(["redis", "a"]),
        st.sampled_from(["10.96.8.20", "10.96.8.21"]),
        st.sampled_from([80, 6379]),
    ),
    max_size=2,
    unique_by=lambda each: each["metadata"]["name"],
)
VALUES = st.sampled_from(["1", "$(A)", "<$(REDIS_PORT)>", "$(KUBERNETES_SERVICE_HOST)", "$$(A)"])
MAPS = st.dictionaries(
    st.sampled_from(["one", "two"]), st.dictionaries(st.sampled_from(KEYS), VALUES)
)
CONTAINERS = st.fixed_dictionaries(
    {
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(KEYS), "value": VALUES}), max_size=3
        ),
        "envFrom": st.lists(
            st.fixed_dictionaries(
                {
                    "configMapRef": st.fixed_dictionaries(
                        {"name": st.sampled_from(["one", "two"]), "optional": st.just(True)}
                    )
                },
                optional={"prefix": st.just("X_")},
            ),
            max_size=3,
        ),
    }
)


@given(CONTAINERS, st.booleans(), st.lists(st.tuples(SERVICES, MAPS), min_size=1, max_size=3))
def test_each_start_of_a_container_sees_what_it_would_on_a_plain_cluster(
    container: dict[str, Any], links: bool, starts: list[tuple[list[dict[str, Any]], Maps]]
):
    """The super pod is built once. Services and ConfigMaps change between the starts."""
    own = {"name": "main", "image": "i", **container}
    made = pod_build.build_super_pod(pod(containers=[own], enableServiceLinks=links), FACTS).pod
    (twin,) = made["spec"]["containers"]
    theirs = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for services, maps in starts:
        ours = {
            name: service_variables.build_service_variables(
                [API, *services], "web", links=name == names.SERVICE_VARIABLES
            )
            for name in service_variables.NAMES
        }
        plain = service_variables.build_service_variables([API, *services], "web", links=links)
        assert start(twin, {**maps, **ours}, theirs) == start(own, maps, plain)
