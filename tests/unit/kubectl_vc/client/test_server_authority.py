"""Authorities of a kubeconfig, from the ConfigMap that a virtual cluster publishes."""

import base64

import pytest
import yaml

from kubectl_vc.client import server_authority
from kubectl_vc.output.cli_errors import CliError
from tests.support.vcmanager.factories import NOW
from vcmanager.pki import authority, bundles

OLD, NEW = (authority.make_authority(name, now=NOW) for name in ("old", "new"))
KUBECONFIG = bundles.build_kubeconfig(
    OLD, cluster="vc", user="admin", server="https://192.0.2.1:443", authority=OLD.certificate
)


class FakeTenant:
    def __init__(self, data):
        self.data = data

    async def get(self, _resource, name, *, namespace):
        assert (name, namespace) == ("kube-root-ca.crt", "kube-public")
        return {"data": self.data}


async def test_published_authorities_are_read():
    pem = (OLD.certificate + NEW.certificate).decode()
    assert await server_authority.fetch_authorities(FakeTenant({"ca.crt": pem})) == pem.encode()


@pytest.mark.parametrize("data", [None, {}, {"ca.crt": "none"}])
async def test_a_config_map_without_certificates_is_an_error(data):
    with pytest.raises(CliError, match=r"kube-public/kube-root-ca.crt has no certificate"):
        await server_authority.fetch_authorities(FakeTenant(data))


def test_only_the_authorities_are_replaced():
    both = OLD.certificate + NEW.certificate
    made = server_authority.replace_authorities(KUBECONFIG, both)
    before, after = yaml.safe_load(KUBECONFIG), yaml.safe_load(made)
    found = after["clusters"][0]["cluster"].pop("certificate-authority-data")
    assert base64.b64decode(found) == both
    del before["clusters"][0]["cluster"]["certificate-authority-data"]
    assert before == after


def test_a_file_with_the_same_authorities_stays_the_same():
    document = yaml.safe_load(server_authority.replace_authorities(KUBECONFIG, NEW.certificate))
    data = document["clusters"][0]["cluster"]
    data["certificate-authority-data"] = base64.b64encode(
        NEW.certificate + OLD.certificate
    ).decode()
    content = yaml.safe_dump(document).encode()
    same = OLD.certificate + b"\n" + NEW.certificate
    assert server_authority.replace_authorities(content, same) == content


@pytest.mark.parametrize("content", [b"", b"[]", KUBECONFIG.replace(b"current-context", b"other")])
def test_other_files_are_refused(content):
    with pytest.raises(CliError, match="no kubeconfig with a current context and its cluster"):
        server_authority.replace_authorities(content, NEW.certificate)
