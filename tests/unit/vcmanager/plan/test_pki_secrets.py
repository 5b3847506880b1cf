import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509

from tenancy import wellknown
from tests.support.vcmanager.factories import FACTS, NOW
from vcmanager.agents.authorities import AgentAuthorities
from vcmanager.pki import authority, bundles, inventory
from vcmanager.plan import pki_secrets
from vcmanager.plan.pki_secrets import ApiAddress
from vcmanager.runtime.blocked import PhaseBlocked

DAYS_90 = timedelta(days=90)
INTERNAL = ApiAddress(server="https://10.96.4.1:443")
EXTERNAL = ApiAddress(server="https://192.0.2.1:31000", server_name="apiserver-svc.root")
AGENTS = AgentAuthorities(
    client=authority.make_authority("agents client", now=NOW),
    serving=authority.make_authority("agents serving", now=NOW),
)


def named(manifests):
    return {each["metadata"]["name"]: each for each in manifests}


@pytest.fixture(scope="module")
def roots():
    made = asyncio.run(
        pki_secrets.build_missing_authorities({}, FACTS, is_initialised=False, now=NOW)
    )
    return named(made)


def material(
    secrets,
    *,
    facts=FACTS,
    external=EXTERNAL,
    now=NOW,
    is_bundled=False,
    lifetime=DAYS_90,
    requested=None,
):
    return pki_secrets.build_secrets(
        secrets,
        facts,
        pki_secrets.read_authorities(secrets, facts, AGENTS),
        AGENTS,
        internal=INTERNAL,
        external=external,
        is_bundled=is_bundled,
        lifetime=lifetime,
        now=now,
        requested=requested,
    )


def everything(roots, **more):
    return {**roots, **named(material(roots, **more).secrets)}


def test_a_new_tenant_gets_all_roots(roots):
    assert set(roots) == {*inventory.AUTHORITIES.values(), "serviceaccount-rsa"}


async def test_only_what_is_missing_is_made_while_a_tenant_is_new(roots):
    some = {name: secret for name, secret in roots.items() if name != "etcd-authority"}
    made = await pki_secrets.build_missing_authorities(some, FACTS, is_initialised=False, now=NOW)
    assert set(named(made)) == {"etcd-authority"}


@pytest.mark.parametrize("gone", [*inventory.AUTHORITIES.values(), "serviceaccount-rsa"])
async def test_a_root_that_was_there_is_never_recreated(roots, gone):
    some = {name: secret for name, secret in roots.items() if name != gone}
    with pytest.raises(PhaseBlocked, match=f"The Secret {gone} .* Restore it") as caught:
        await pki_secrets.build_missing_authorities(some, FACTS, is_initialised=True, now=NOW)
    assert caught.value.reason == "AuthorityLost"
    assert caught.value.needs_admin


@pytest.mark.parametrize("broken", [*inventory.AUTHORITIES.values(), "serviceaccount-rsa"])
@pytest.mark.parametrize("data", [{}, {"tls.crt": "AAAA", "tls.key": "AAAA"}])
def test_a_broken_root_holds_everything(roots, broken, data):
    secrets = {**roots, broken: {**roots[broken], "data": data}}
    with pytest.raises(PhaseBlocked, match=broken) as caught:
        material(secrets)
    assert caught.value.reason == "AuthorityBroken"


def test_a_truncated_root_holds_everything(roots):
    pair = bundles.read_key_pair(roots["root-ca"])
    cut = bundles.build_key_pair_secret("root-ca", FACTS.root, replace(pair, key=pair.key[:100]))
    with pytest.raises(PhaseBlocked, match="root-ca"):
        material({**roots, "root-ca": cut})


def test_all_secrets_are_made_once_and_then_kept_to_the_byte(roots):
    first = material(roots)
    assert {fault for _, fault in first.renewed_secrets} == {"missing"}
    second = material({**roots, **named(first.secrets)}, now=NOW + timedelta(days=30))
    assert second.renewed_secrets == ()
    assert second.secrets == first.secrets
    assert second.trust == first.trust


def test_the_next_renewal_is_the_earliest(roots):
    assert material(roots).next_renewal - NOW < timedelta(days=67)
    assert material(roots).next_renewal - NOW > timedelta(days=59)


def test_everything_is_renewed_when_two_thirds_are_over(roots):
    later = material(everything(roots), now=NOW + timedelta(days=67))
    assert {fault for _, fault in later.renewed_secrets} == {"due for renewal"}
    assert len(later.renewed_secrets) == len(everything(roots)) - len(roots)


def test_an_expired_tenant_is_repaired_without_its_help(roots):
    later = material(everything(roots), now=NOW + timedelta(days=1000))
    assert len(later.renewed_secrets) == len(everything(roots)) - len(roots)


def test_only_the_certificate_whose_names_changed_is_renewed(roots):
    changed = replace(FACTS, external_domains=("other.example.org",))
    assert material(everything(roots), facts=changed).renewed_secrets == (
        ("apiserver-ca", "other names"),
    )


def test_a_new_address_changes_the_kubeconfig_and_not_its_key(roots):
    before = everything(roots)
    moved = material(before, external=ApiAddress(server="https://192.0.2.9:31000"))
    assert moved.renewed_secrets == ()
    old = bundles.read_data(before["admin-kubeconfig"], "admin-kubeconfig")
    new = bundles.read_data(named(moved.secrets)["admin-kubeconfig"], "admin-kubeconfig")
    assert b"https://192.0.2.9:31000" in new
    assert bundles.read_kubeconfig_key_pair(new) == bundles.read_kubeconfig_key_pair(old)


def test_without_an_address_only_the_admins_kubeconfig_is_missing(roots):
    assert set(everything(roots)) - set(everything(roots, external=None)) == {"admin-kubeconfig"}


def test_kubeconfigs_inside_go_to_the_first_address_of_the_slice(roots):
    secrets = everything(roots)
    for name in ("syncer", "manager", "coredns", "controller-manager"):
        document = bundles.read_data(secrets[f"{name}-kubeconfig"], f"{name}-kubeconfig")
        assert b"https://10.96.4.1:443" in document


def test_the_authority_behind_the_tenants_servers_is_reported_without_its_key(roots):
    facts = replace(FACTS, has_metrics=True)
    made = material(roots, facts=facts)
    assert made.serving == bundles.read_key_pair(roots["root-ca"]).certificate
    server = bundles.read_key_pair(named(made.secrets)["metrics-server-serving"]).certificate
    issuer = x509.load_pem_x509_certificate(made.serving)
    x509.load_pem_x509_certificate(server).verify_directly_issued_by(issuer)


def test_no_key_of_an_authority_but_the_signers_is_in_a_bundle_tenants_pods(roots):
    secrets = everything(roots, is_bundled=True)
    assert set(secrets["root-ca-etcd"]["data"]) == {"tls.crt"}
    assert set(secrets["root-ca-apiserver"]["data"]) == {"tls.crt"}
    signer = bundles.read_key_pair(secrets["root-ca-controller-manager"])
    assert signer == bundles.read_key_pair(roots["client-authority"])
    etcd = bundles.read_data(secrets["root-ca-etcd"], "tls.crt")
    assert etcd == bundles.read_key_pair(roots["etcd-authority"]).certificate


def test_the_trust_bundle_holds_certificates_alone(roots):
    trust = material(roots).trust
    assert set(trust["data"]) == {
        "serving.crt",
        "client.crt",
        "etcd.crt",
        "front-proxy.crt",
        "agents.crt",
    }
    assert not any("PRIVATE" in text for text in trust["data"].values())
    assert len(set(trust["data"].values())) == 5


def test_a_request_renews_every_leaf_and_no_authority(roots):
    secrets = everything(roots)
    later = NOW + timedelta(hours=1)
    made = material(secrets, now=later, requested=NOW + timedelta(minutes=30))
    names = {each["metadata"]["name"] for each in made.secrets}
    assert {name for name, _ in made.renewed_secrets} == names
    assert {fault for _, fault in made.renewed_secrets} == {"renewal requested"}
    again = material(
        {**secrets, **named(made.secrets)}, now=later, requested=NOW + timedelta(minutes=30)
    )
    assert again.renewed_secrets == ()


def test_a_request_for_young_certificates_is_due_when_they_are_ten_minutes_old(roots):
    made = material(
        everything(roots), now=NOW + timedelta(minutes=2), requested=NOW + timedelta(minutes=1)
    )
    assert made.renewed_secrets == ()
    assert made.next_renewal == NOW + timedelta(minutes=10)


def test_the_end_of_a_replaced_admin_kubeconfig_is_remembered_until_it_is_over(roots):
    first = everything(roots)
    assert "annotations" not in first["admin-kubeconfig"]["metadata"]
    renewed = everything({**first}, now=NOW + timedelta(days=67))
    end = NOW + timedelta(days=90)
    kept = material(renewed, now=NOW + timedelta(days=80))
    assert kept.replaced_ends == (end,)
    text = renewed["admin-kubeconfig"]["metadata"]["annotations"]
    assert text == {"tenancy.x-k8s.io/replaced-kubeconfig-ends": end.isoformat()}
    assert "annotations" not in renewed["syncer-kubeconfig"]["metadata"]
    assert material(renewed, now=NOW + timedelta(days=91)).replaced_ends == ()


def test_few_replaced_kubeconfigs_are_remembered(roots):
    secrets = everything(roots)
    for hour in range(1, 9):
        now = NOW + timedelta(hours=hour)
        secrets = everything(secrets, now=now, requested=now)
    assert len(material(secrets, now=NOW + timedelta(hours=9)).replaced_ends) == 5


def test_certificates_of_an_ended_authority_are_kept_and_the_others_are_renewed(roots):
    ended = authority.make_authority("etcd", now=NOW - timedelta(days=3600))
    secrets = {
        **roots,
        "etcd-authority": bundles.build_key_pair_secret("etcd-authority", FACTS.root, ended),
    }
    first = everything(secrets)
    later = material(first, now=NOW + timedelta(days=67))
    renewed = {name for name, _ in later.renewed_secrets}
    assert {"etcd-ca", "apiserver-etcd-client"} & renewed == set()
    assert {"apiserver-ca", "admin-kubeconfig"} <= renewed
    assert named(later.secrets)["etcd-ca"] == first["etcd-ca"]
    assert later.next_renewal > NOW + timedelta(days=67)
    assert later.ended_message == (
        f"The authority etcd ended on {NOW + timedelta(days=52):%Y-%m-%d}, so its certificates are"
        f" refused. Replace it with `kubectl vc certs rotate {FACTS.name} --authority etcd`."
    )


def test_no_certificate_is_missing_silently_when_its_authority_has_ended(roots):
    with pytest.raises(PhaseBlocked, match="authority etcd ended") as caught:
        material(roots, now=NOW + timedelta(days=4000))
    assert (caught.value.reason, caught.value.needs_admin) == ("AuthorityExpired", True)
    for name in wellknown.SHARED_AUTHORITIES:
        assert f"certs rotate --authority {name}`" in caught.value.message


def test_all_may_have_ended(roots):
    secrets = everything(roots)
    later = material(secrets, now=NOW + timedelta(days=4000))
    assert later.renewed_secrets == ()
    assert "serving ended" in later.ended_message
