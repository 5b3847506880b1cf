"""Changes of a running control plane that wait for a slot."""

import copy

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager.phases.waves.pending_changes import list_pending_changes
from vcmanager.runtime.object_metadata import add_metadata
from vcmanager.runtime.observed import ObservedObjects

DESIRED = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "apiserver"},
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {
                "containers": [{"name": "apiserver", "image": "kube-apiserver:v1.36.4"}],
                "volumes": [{"name": "config", "configMap": {"name": "apiserver-config"}}],
            }
        },
    },
}
CONFIG = {
    "kind": "ConfigMap",
    "metadata": {"name": "apiserver-config"},
    "data": {"authentication.yaml": "a"},
}


class DefaultingClient(RecordingClient):
    """Adds a default to each pod template, as an API server does."""

    async def apply(self, _resource, body, *, dry_run=False, **_):
        """Return the object with a default. It must be a dry run."""
        assert dry_run
        self.calls.append(("dry run", body["metadata"]["name"]))
        made = copy.deepcopy(body)
        made["spec"]["template"]["spec"]["restartPolicy"] = "Always"
        return made


def running(desired=DESIRED, mounted="old certificates"):
    live = add_metadata(desired, TENANT, {}, mounted=mounted)
    live["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    return live


async def pending(live, desired=DESIRED, config=CONFIG, live_config=CONFIG):
    objects = {"ConfigMap": {"apiserver-config": live_config}}
    if live is not None:
        objects["StatefulSet"] = {"apiserver": live}
    super_client = DefaultingClient()
    found = await list_pending_changes(
        fake_means(super_client),
        TENANT,
        ObservedObjects(namespace=None, objects=objects),
        workloads=[desired],
        configuration=[config],
    )
    return found, super_client.calls


def changed(path, value):
    made = copy.deepcopy(DESIRED)
    node = made
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return made


CONTAINER = ("spec", "template", "spec", "containers", 0)


async def test_an_equal_control_plane_costs_no_request():
    assert await pending(running()) == ([], [])


@pytest.mark.parametrize(
    ("desired", "is_change"),
    [
        (changed((*CONTAINER, "image"), "kube-apiserver:v1.36.5"), True),
        (changed((*CONTAINER, "args"), ["--event-ttl=2h"]), True),
        (changed(("spec", "template", "spec", "restartPolicy"), "Always"), False),
        (changed(("spec", "replicas"), 3), False),
        (changed(("metadata", "labels"), {"a": "b"}), False),
    ],
)
async def test_only_a_template_that_would_differ_is_a_change(desired, is_change):
    found, calls = await pending(running(), desired)
    assert found == ["StatefulSet apiserver"] * is_change
    assert calls == [("dry run", "apiserver")]


async def test_a_field_that_is_no_longer_desired_is_a_change():
    live = running(changed((*CONTAINER, "args"), ["--event-ttl=2h"]))
    assert (await pending(live))[0] == ["StatefulSet apiserver"]


async def test_what_another_client_changed_is_a_change():
    live = running()
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert (await pending(live))[0] == ["StatefulSet apiserver"]


async def test_the_content_of_a_mounted_setting_is_a_change():
    config = {**CONFIG, "data": {"authentication.yaml": "b"}}
    assert await pending(running(), config=config) == (["StatefulSet apiserver"], [])


async def test_issuers_of_logins_wait_for_no_slot():
    """The API server reads them again by itself."""
    config = {**CONFIG, "data": {"authentication.yaml": "a\njwt: [{}]\n"}}
    basis = {**CONFIG, "data": {"authentication.yaml": "a\n"}}
    assert (await pending(running(), config=config, live_config=basis))[0] == []
    assert (await pending(running(), config=basis, live_config=config))[0] == []
    audit = {**config, "data": {**config["data"], "audit-policy.yaml": "b"}}
    assert (await pending(running(), config=audit, live_config=basis))[0] != []


@pytest.mark.parametrize("config", [CONFIG, {**CONFIG, "metadata": {"name": "not-mounted"}}])
async def test_other_settings_are_none(config):
    assert (await pending(running(), config=config))[0] == []


@pytest.mark.parametrize("is_ending", [False, True])
async def test_what_does_not_run_is_created_without_a_slot(is_ending):
    live = running()
    live["metadata"]["deletionTimestamp"] = "now"
    assert await pending(live if is_ending else None) == ([], [])


async def test_a_renewed_certificate_is_no_change():
    live = running()
    digest = live["spec"]["template"]["metadata"]["annotations"]
    assert digest == {wellknown.SECRETS_DIGEST: "old certificates"}
    digest[wellknown.SECRETS_DIGEST] = "renewed while it waited"
    assert (await pending(live))[0] == []
