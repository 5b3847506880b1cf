from dataclasses import replace

import pytest

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec, ExtraArgs, InvalidSpecError
from vcmanager.plan import versions


def short(version: str, **more) -> ClusterVersionSpec:
    return ClusterVersionSpec(kubernetes_version=version, **more)


def test_a_minor_means_its_newest_known_release():
    release = versions.resolve_release("v", short("1.36"))
    assert release.minor == "1.36"
    assert release.versions == catalog.get_versions("1.36")


def test_parts_without_a_minor_are_those_of_the_default_minor():
    release = versions.get_default_release()
    assert release.minor == catalog.DEFAULT_MINOR
    assert release.versions == catalog.get_versions(catalog.DEFAULT_MINOR)


def test_a_release_is_taken_as_it_is_beside_the_minors_other_parts():
    release = versions.resolve_release("v", short("1.36.99"))
    known = catalog.get_versions("1.36")
    assert release.versions.kubernetes == "1.36.99"
    assert release.versions == replace(known, kubernetes="1.36.99")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (short("1.9"), "1.9 is not known to this vc-manager. Known minors are 1.35, 1.36, 1.37"),
        (short("1"), "neither a minor such as 1.36 nor a release"),
        (short("v1.36"), "neither a minor"),
        (short("1.36.4-rc.1"), "neither a minor"),
        (short("1.36", replicas=2), "replicas is 2. It must be 1 or 3"),
        (
            short("1.36", extra_args=ExtraArgs(api_server={"--v": "2"})),
            "extraArgs.apiServer has the flag '--v'. Write flags without leading dashes",
        ),
        (
            short("1.36", extra_args=ExtraArgs(etcd={"data-dir": "elsewhere"})),
            "extraArgs.etcd sets data-dir, which vc-manager sets",
        ),
        (
            short("1.36", extra_args=ExtraArgs(controller_manager={"controllers": "*"})),
            "extraArgs.controllerManager sets controllers",
        ),
    ],
)
def test_what_cannot_be_meant_is_named(spec, sentence):
    with pytest.raises(InvalidSpecError, match=sentence.replace(".", r"\.")) as caught:
        versions.resolve_release("mine", spec)
    assert "ClusterVersion mine" in str(caught.value)


@pytest.mark.parametrize(
    ("part", "flag"),
    [
        *(("api_server", f"service-account-{word}") for word in ("key-file", "issuer")),
        ("api_server", "service-account-extend-token-expiration"),
        ("api_server", "authentication-config"),
        ("api_server", "anonymous-auth"),
        ("api_server", "etcd-prefix"),
        ("controller_manager", "requestheader-client-ca-file"),
        *(
            ("controller_manager", f"cluster-signing-{signer}-{kind}-file")
            for signer in (
                *("kubelet-serving", "kubelet-client", "kube-apiserver-client", "legacy-unknown"),
            )
            for kind in ("cert", "key")
        ),
    ],
)
def test_flags_that_carry_a_tenants_trust_are_the_managers(part, flag):
    with pytest.raises(InvalidSpecError, match=f"sets {flag}, which vc-manager sets"):
        versions.resolve_release("v", short("1.36", extra_args=ExtraArgs(**{part: {flag: "x"}})))


@pytest.mark.parametrize("flag", ["oidc-issuer-url", "oidc-client-id", "oidc-groups-prefix"])
def test_flags_of_oidc_are_refused_with_the_field_that_replaces_them(flag):
    given = ExtraArgs(api_server={flag: "x"})
    with pytest.raises(InvalidSpecError, match=r"Use spec\.auth of the VirtualCluster") as caught:
        versions.resolve_release("v", short("1.36", extra_args=given))
    assert f"sets {flag}. The API server does not start with it" in str(caught.value)


def test_extra_arguments_become_flags_in_a_stable_order():
    given = ExtraArgs(api_server={"v": "2", "event-ttl": "2h"}, etcd={"snapshot-count": "5000"})
    release = versions.resolve_release("v", short("1.36", extra_args=given))
    assert release.extra_args["apiServer"] == ("--event-ttl=2h", "--v=2")
    assert release.extra_args["etcd"] == ("--snapshot-count=5000",)
    assert release.extra_args["controllerManager"] == ()


@pytest.mark.parametrize(("registry", "prefix"), [("", ""), ("a/b", "a/b/"), ("a/b/", "a/b/")])
def test_images_are_named_after_registry_and_version(registry, prefix):
    parts = catalog.ComponentVersions(
        kubernetes="1.36.4", etcd="3.7.3", coredns="1.14.7", metrics_server="0.9.0"
    )
    assert versions.build_images(registry, parts) == {
        "etcd": f"{prefix}etcd:3.7.3",
        "apiserver": f"{prefix}kube-apiserver:v1.36.4",
        "controller_manager": f"{prefix}kube-controller-manager:v1.36.4",
        "coredns": f"{prefix}coredns:1.14.7",
        "metrics_server": f"{prefix}metrics-server:v0.9.0",
    }
