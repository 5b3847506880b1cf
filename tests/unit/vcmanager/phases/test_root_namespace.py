import pytest

from kubeio import errors
from tenancy import ownership, wellknown
from tenancy.specs import KubeconfigReader, VirtualClusterSpec
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager.phases import root_namespace
from vcmanager.runtime.blocked import PhaseBlocked

ENFORCE = "pod-security.kubernetes.io/enforce"


def existing(*, deleting=False, labels=None, **annotations):
    """Return the namespace as it is, with other annotations or labels."""
    body = root_namespace.build_namespace(TENANT, is_bundled=False)
    body["metadata"]["annotations"] |= annotations
    body["metadata"]["labels"] |= labels or {}
    body["metadata"]["uid"] = "u"
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return body


@pytest.mark.parametrize(("is_bundled", "level"), [(True, "baseline"), (False, "restricted")])
def test_namespace_is_marked_and_enforces_a_level(is_bundled, level):
    metadata = root_namespace.build_namespace(TENANT, is_bundled=is_bundled)["metadata"]
    assert metadata["name"] == TENANT.root
    assert metadata["labels"][ENFORCE] == level
    assert metadata["labels"].items() >= ownership.build_owner_labels(TENANT, "").items()
    assert metadata["annotations"][wellknown.VC_UID] == TENANT.uid


@pytest.mark.parametrize(
    ("annotations", "is_own"),
    [
        ({}, True),
        ({wellknown.VC_UID: "another"}, False),
        ({wellknown.ROOT_NAMESPACE: "false"}, False),
    ],
    ids=["marked", "another UID", "not marked"],
)
def test_namespace_is_owned_by_its_marks(annotations, is_own):
    assert root_namespace.is_own_namespace(existing(**annotations), TENANT) is is_own


def test_namespace_without_annotations_is_not_owned():
    assert not root_namespace.is_own_namespace({"metadata": {"name": TENANT.root}}, TENANT)


@pytest.mark.parametrize(
    ("found", "verbs"),
    [
        (None, ["create"]),
        (existing(), []),
        (existing(labels={"added": "by someone"}), []),
        (existing(labels={ENFORCE: "privileged"}), ["apply"]),
    ],
    ids=["missing", "as it should be", "further labels", "a weaker level"],
)
async def test_namespace_is_created_or_corrected(found, verbs):
    client = RecordingClient()
    await root_namespace.ensure_root_namespace(fake_means(client), TENANT, found, is_bundled=False)
    assert [verb for verb, _ in client.calls] == verbs


@pytest.mark.parametrize(
    ("found", "reason", "needs_admin"),
    [
        (existing(**{wellknown.VC_UID: "another"}), "NameCollision", True),
        (existing(deleting=True), "NamespaceTerminating", False),
    ],
    ids=["of someone else", "being deleted"],
)
async def test_namespace_blocks_the_tenant(found, reason, needs_admin):
    client = RecordingClient({TENANT.root: found})
    client.problems["create", TENANT.root] = errors.AlreadyExists("it exists", status=409)
    for known in (found, None):
        with pytest.raises(PhaseBlocked) as raised:
            await root_namespace.ensure_root_namespace(
                fake_means(client), TENANT, known, is_bundled=False
            )
        assert (raised.value.reason, raised.value.needs_admin) == (reason, needs_admin)
    assert client.calls == []


@pytest.mark.parametrize(
    ("found", "verbs"),
    [(existing(), ["patch"]), (existing(**{wellknown.PKI_INITIALISED: "true"}), [])],
    ids=["first", "again"],
)
async def test_authorities_are_recorded_once(found, verbs):
    client = RecordingClient()
    await root_namespace.mark_pki_initialised(fake_means(client), found)
    assert [verb for verb, _ in client.calls] == verbs


def spec(*readers: tuple[str, str]) -> VirtualClusterSpec:
    return VirtualClusterSpec(
        cluster_version_name="v",
        kubeconfig_readers=tuple(
            KubeconfigReader(kind=kind, name=name)  # type: ignore[arg-type]
            for kind, name in readers
        ),
    )


def test_without_readers_there_is_no_binding():
    assert root_namespace.build_role_bindings(spec()) == []


def test_readers_are_bound_to_the_role_that_gets_one_secret():
    (made,) = root_namespace.build_role_bindings(spec(("User", "ann"), ("Group", "team-a")))
    assert made["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "virtual-cluster-kubeconfigs",
    }
    assert [(each["kind"], each["name"]) for each in made["subjects"]] == [
        ("User", "ann"),
        ("Group", "team-a"),
    ]


async def test_the_syncer_is_bound_to_read_its_kubeconfig():
    client = RecordingClient()
    means = fake_means(client)
    await root_namespace.ensure_credential_access(means, TENANT, None)
    (body,) = client.bodies
    assert (body["kind"], body["metadata"]["namespace"]) == ("RoleBinding", TENANT.root)
    assert body["roleRef"]["name"] == wellknown.SYNCER_CREDENTIAL_ROLE
    assert [each["name"] for each in body["subjects"]] == ["vc-syncer"]
    await root_namespace.ensure_credential_access(means, TENANT, body)
    assert len(client.bodies) == 1
    changed = {**body, "roleRef": {**body["roleRef"], "name": "admin"}}
    await root_namespace.ensure_credential_access(means, TENANT, changed)
    assert len(client.bodies) == 2
