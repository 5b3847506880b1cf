from kubectl_vc.verbs import kubeconfig
from kubeio import errors
from tests.support.kubeio.described_requests import REQUEST


def test_who_may_not_read_the_secret_learns_what_an_administrator_runs():
    refused = errors.from_status(
        403,
        {
            "message": 'secrets "admin-kubeconfig" is forbidden: User "jane" cannot get resource'
            ' "secrets" in API group "" in the namespace "shop-abcdef-web"'
        },
        request=REQUEST,
    )
    assert kubeconfig.describe_grant("shop-abcdef-web", refused) == (
        "Ask a platform administrator for the kubeconfig, or to run: kubectl create"
        " rolebinding admin-kubeconfig --namespace shop-abcdef-web --clusterrole"
        " virtual-cluster-kubeconfigs --user jane"
    )
