import pytest

from kubectl_vc.client import connection
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubeio.config import loading

KUBECONFIG = """
contexts: [{{name: blue, context: {{cluster: c, user: u{namespace}}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:9"}}}}]
users: [{{name: u, user: {{token: t}}}}]
current-context: blue
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def to(name: str, namespace: str = "") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            KUBECONFIG.format(namespace=f", namespace: {namespace}" if namespace else "")
        )
        return str(path)

    return to


async def place(access: ConfigFlags) -> tuple[str, bool]:
    async with connect_super_cluster(access) as found:
        return found.namespace, found.is_explicit


async def test_the_namespace_is_the_flags_the_contexts_or_default(write):
    plain, shop = write("plain"), write("shop", "shop")
    assert await place(ConfigFlags(kubeconfig=plain)) == ("default", False)
    assert await place(ConfigFlags(kubeconfig=shop)) == ("shop", False)
    assert await place(ConfigFlags(kubeconfig=shop, namespace="other")) == ("other", True)


async def test_the_kubeconfig_of_the_home_directory_is_the_last_resort(write):
    write(".kube/config", "home")
    assert await place(ConfigFlags()) == ("home", False)


async def test_a_namespace_that_none_can_have_is_refused(write):
    with pytest.raises(CliError, match="the namespace 'A' is not a DNS label"):
        await place(ConfigFlags(kubeconfig=write("plain"), namespace="A"))


async def test_a_group_without_a_user_is_a_wrong_call(write):
    with pytest.raises(UsageError, match="--as-group needs --as"):
        await place(ConfigFlags(kubeconfig=write("plain"), as_groups=("g",)))


async def test_impersonation_reaches_the_client(write):
    access = ConfigFlags(kubeconfig=write("plain"), as_user="jane", as_groups=("a", "b"))
    async with connect_super_cluster(access) as found:
        endpoint = found.super_client.endpoint
        assert (endpoint.impersonate, endpoint.impersonate_groups) == ("jane", ("a", "b"))


async def test_without_a_kubeconfig_a_pod_uses_its_account(write, tmp_path, monkeypatch, authority):
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(authority)
    (account / "token").write_text("t")
    (account / "namespace").write_text("pods-own\n")
    monkeypatch.setattr(loading, "ACCOUNT_DIRECTORY", account)
    monkeypatch.setattr(loading.load_in_cluster, "__defaults__", (account,))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    async with connect_super_cluster(ConfigFlags()) as found:
        assert found.namespace == "pods-own"
        assert found.super_client.endpoint.server == "https://192.0.2.1:443"
    write(".kube/config", "home")
    assert await place(ConfigFlags()) == ("home", False)
    assert connection.DEFAULT_NAMESPACE == "default"
