"""Page of the images: each image of an installation and of its tenants."""

from __future__ import annotations

from tools.reference import markdown
from tools.testbed import versions
from tools.testbed.artifacts import haproxy, images, product

_HEAD = markdown.build_head(
    "Images",
    "the tables of `tools/testbed`",
    "`make release` writes all of them to one archive. The prefix is the chart value"
    " `image.registry`, and `controlPlane.image.registry` for the control planes of tenants.",
)
_COMPONENTS = {
    "vc-manager": "Creates the control planes. Also runs the Jobs of snapshots",
    "vc-syncer": "Syncs objects",
    "vn-agent": "Answers kubelet requests of tenants on each node",
}
_PROXY_PURPOSE = "Proxy for the APIs of all tenants, with the chart value apiProxy.enabled"
_PROGRAMS = {
    "etcd": "Store of a tenant",
    "kube-apiserver": "API server of a tenant",
    "kube-controller-manager": "Controllers of a tenant",
    "coredns": "Name server of a tenant",
    "metrics-server": "Metrics of a tenant, with spec.metrics: managed",
}


def build_page() -> str:
    """Return the page."""
    version = product.version()
    ours = [(markdown.quote(f"{name}:{version}"), text) for name, text in _COMPONENTS.items()]
    proxy = haproxy.IMAGE.removeprefix(f"{images.PREFIX}/")
    ours.append((markdown.quote(proxy), _PROXY_PURPOSE))
    rows = []
    for recipe in images.for_tenants():
        name = recipe.name.removeprefix(f"{images.PREFIX}/")
        rows.append((markdown.quote(name), _PROGRAMS[name.partition(":")[0]]))
    minors = ", ".join(each.minor for each in versions.load().kubernetes)
    return "\n".join(
        [
            _HEAD,
            "## Components\n",
            markdown.build_table(("image", "purpose"), ours),
            f"## Control planes of tenants\n\nTenants may have the Kubernetes minors {minors}.\n",
            markdown.build_table(("image", "purpose"), rows),
        ]
    )
