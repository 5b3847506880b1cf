"""Every rule of the API server about `spec.auth` that needs no compiler."""

import msgspec
import pytest
import trustme

from tenancy.access.specs import AuthSpec
from vcmanager.plan.access import authentication_rules

OWN_ISSUER = "https://kubernetes.default.svc.cluster.local"
AUTHORITY = trustme.CA().cert_pem.bytes().decode()
MAPPINGS = {"username": {"claim": "sub", "prefix": "oidc:"}}
GOOD = {"issuer": {"url": "https://a.example.com", "audiences": ["k"]}, "claimMappings": MAPPINGS}


def parse(*entries):
    return msgspec.convert({"jwt": list(entries)}, AuthSpec)


def issuer(**fields):
    return {**GOOD, "issuer": {**GOOD["issuer"], **fields}}


def mapped(**fields):
    return {**GOOD, "claimMappings": {**MAPPINGS, **fields}}


def ruled(*rules):
    return {**GOOD, "claimValidationRules": list(rules)}


def problems(*entries):
    return authentication_rules.list_problems(parse(*entries), own_issuer=OWN_ISSUER)


@pytest.mark.parametrize(
    "entry",
    [
        GOOD,
        issuer(certificateAuthority=AUTHORITY),
        issuer(url="https://a.example.com:8443/realms/x", discoveryURL="https://b.example.com/d"),
        issuer(audiences=["a", "b"], audienceMatchPolicy="MatchAny"),
        issuer(audienceMatchPolicy="MatchAny"),
        mapped(username={"claim": "sub", "prefix": ""}),
        mapped(username={"expression": "claims.sub"}),
        mapped(groups={"claim": "groups", "prefix": "oidc:"}, uid={"claim": "sub"}),
        mapped(extra=[{"key": "example.com/team", "valueExpression": "claims.team"}]),
        ruled(
            {"claim": "hd", "requiredValue": "x"}, {"expression": "claims.a == 'b'", "message": "m"}
        ),
        {
            **mapped(username={"expression": "claims.email"}),
            "claimValidationRules": [{"expression": "claims.email_verified == true"}],
        },
        mapped(username={"expression": "claims.email_other"}),
    ],
)
def test_what_the_api_server_accepts_is_accepted(entry):
    assert problems(entry) == []


@pytest.mark.parametrize(
    ("entry", "field", "word"),
    [
        (issuer(url="http://a.example.com"), "issuer.url", "https"),
        (issuer(url="https://"), "issuer.url", "host"),
        (issuer(url="https://u:p@a.example.com"), "issuer.url", "user"),
        (issuer(url="https://a.example.com?x=1"), "issuer.url", "query"),
        (issuer(url="https://a.example.com#x"), "issuer.url", "fragment"),
        (issuer(url="https://a.example.com:x"), "issuer.url", "host"),
        (issuer(url="https://a.example.com/%zz"), "issuer.url", "escapes"),
        (issuer(url="https://a.example.com\n"), "issuer.url", "https"),
        (issuer(url=OWN_ISSUER), "issuer.url", "ServiceAccount"),
        (issuer(discoveryURL="http://b"), "issuer.discoveryURL", "https"),
        (issuer(discoveryURL="https://a.example.com/"), "issuer.discoveryURL", "same as url"),
        (issuer(certificateAuthority="no"), "issuer.certificateAuthority", "PEM"),
        (issuer(audiences=[]), "issuer.audiences", "missing"),
        (issuer(audiences=["a", ""], audienceMatchPolicy="MatchAny"), "issuer.audiences", "empty"),
        (issuer(audiences=["a", "a"], audienceMatchPolicy="MatchAny"), "issuer.audiences", "twice"),
        (issuer(audiences=["a", "b"]), "issuer.audienceMatchPolicy", "MatchAny"),
        (ruled({}), "claimValidationRules[0]", "either"),
        (ruled({"claim": "a", "expression": "b"}), "claimValidationRules[0]", "either"),
        (ruled({"claim": "a", "message": "m"}), "claimValidationRules[0].message", "expression"),
        (ruled({"expression": "true", "requiredValue": "m"}), "claimValidationRules[0]", "claim"),
        (ruled({"claim": "a"}, {"claim": "a"}), "claimValidationRules[1]", "same"),
        (ruled({"expression": "true"}, {"expression": "true"}), "claimValidationRules[1]", "same"),
        (mapped(username={}), "claimMappings.username", "either"),
        (mapped(username={"claim": "a", "expression": "b"}), "claimMappings.username", "either"),
        (mapped(username={"claim": "a"}), "claimMappings.username.prefix", "required"),
        (mapped(groups={"claim": "a"}), "claimMappings.groups.prefix", "required"),
        (mapped(groups={"expression": "a", "prefix": ""}), "claimMappings.groups.prefix", "Remove"),
        (mapped(username={"claim": "a", "prefix": "system:"}), "username.prefix", "reserved"),
        (mapped(groups={"claim": "a", "prefix": "tenancy:x"}), "groups.prefix", "reserved"),
        (
            mapped(username={"claim": "a", "prefix": "vc-kubeconfig:"}),
            "username.prefix",
            "reserved",
        ),
        (mapped(uid={"claim": "a", "expression": "b"}), "claimMappings.uid", "either"),
        (mapped(extra=[{"key": "team", "valueExpression": "a"}]), "extra[0].key", "domain"),
        (mapped(extra=[{"key": "Example.com/T", "valueExpression": "a"}]), "extra[0].key", "lower"),
        (
            mapped(extra=[{"key": "a.k8s.io/t", "valueExpression": "a"}]),
            "extra[0].key",
            "Kubernetes",
        ),
        (
            mapped(extra=[{"key": "a.b/t", "valueExpression": "a"}] * 2),
            "extra[1].key",
            "twice",
        ),
        (mapped(username={"expression": "claims.email"}), "username.expression", "email_verified"),
        (mapped(username={"expression": "claims.?email.orValue('')"}), "username.expr", "verified"),
        ({**GOOD, "userValidationRules": [{"expression": ""}]}, "userValidationRules[0]", "empty"),
        (
            {**GOOD, "userValidationRules": [{"expression": "true"}] * 2},
            "userValidationRules[1]",
            "same",
        ),
    ],
)
def test_what_the_api_server_refuses_is_refused_with_its_field(entry, field, word):
    found = problems(entry)
    assert found, entry
    assert any(field in each and word in each for each in found), found
    assert all(each.startswith("spec.auth.jwt") for each in found)


def test_two_issuers_differ():
    assert any("two entries" in each for each in problems(GOOD, GOOD))
    other = issuer(url="https://b.example.com")
    assert problems(GOOD, other) == []
    same = [issuer(url=f"https://{each}.example.com", discoveryURL="https://d/x") for each in "ab"]
    assert any("issuer.discoveryURL" in each for each in problems(*same))
