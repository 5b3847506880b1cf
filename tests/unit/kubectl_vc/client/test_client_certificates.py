"""Client certificates: the request, its approval, and the kubeconfig with the result."""

import base64

import pytest
import yaml
from cryptography import x509

from kubectl_vc.client import client_certificates
from kubectl_vc.client.client_certificates import ClientCredential
from kubectl_vc.output.cli_errors import CliError
from kubeio import errors
from tests.support.vcmanager.factories import NOW
from vcmanager.pki import authority, bundles
from vcmanager.pki.authority import CertificateSubject

ISSUER = authority.make_authority("client", now=NOW)
SUBJECT = CertificateSubject(
    common_name="admin", organizations=("tenancy:admins",), usages=frozenset({"client"})
)
KUBECONFIG = bundles.build_kubeconfig(
    authority.make_leaf(ISSUER, SUBJECT, lifetime=NOW - NOW.replace(year=2025), now=NOW),
    cluster="vc",
    user="admin",
    server="https://192.0.2.1:443",
    authority=ISSUER.certificate,
)


class FakeTenant:
    """A CertificateSigningRequest API whose controller answers with `status`."""

    def __init__(self, status):
        self.status, self.made, self.approved, self.deleted = status, {}, {}, []

    async def create(self, _resource, body):
        self.made = body
        return body

    async def replace(self, _resource, body, *, name, subresource):
        assert (name, subresource) == (self.made["metadata"]["name"], "approval")
        self.approved = body

    async def get(self, _resource, _name):
        return {"status": self.status}

    async def delete(self, _resource, name):
        self.deleted.append(name)
        raise errors.NotFound("deleted by the cleaner")


def test_user_of_a_kubeconfig_is_read_from_its_certificate():
    assert client_certificates.read_user(KUBECONFIG) == ("admin", ("tenancy:admins",))


@pytest.mark.parametrize(
    "content", [b"", b"a: b", b"[]", KUBECONFIG.replace(b"current-context: default", b"")]
)
def test_other_files_are_refused(content):
    with pytest.raises(CliError, match="no kubeconfig with a current context"):
        client_certificates.read_user(content)


def test_only_certificate_and_key_are_replaced():
    made = client_certificates.replace_credential(KUBECONFIG, ClientCredential(b"new", b"key"))
    before, after = yaml.safe_load(KUBECONFIG), yaml.safe_load(made)
    user = after["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"new"
    assert base64.b64decode(user["client-key-data"]) == b"key"
    before["users"] = after["users"] = None
    assert before == after


async def test_request_names_user_groups_and_lifetime_and_is_deleted():
    tenant = FakeTenant({"certificate": base64.b64encode(b"signed").decode()})
    made = await client_certificates.request_credential(
        tenant, "admin", ("tenancy:admins",), seconds=3600
    )
    assert made.certificate == b"signed"
    spec = tenant.made["spec"]
    assert spec["expirationSeconds"] == 3600
    request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    assert request.subject.rfc4514_string() == "CN=admin,O=tenancy:admins"
    assert tenant.approved["status"]["conditions"][0]["type"] == "Approved"
    assert tenant.deleted == [tenant.made["metadata"]["name"]]


async def test_refusal_is_an_error_and_the_request_is_deleted():
    denied = {"conditions": [{"type": "Failed", "message": "no key"}]}
    tenant = FakeTenant(denied)
    with pytest.raises(CliError, match="did not sign the certificate: no key"):
        await client_certificates.request_credential(tenant, "admin", ())
    assert tenant.deleted
