"""What the agent may do in the super cluster; the chart's RBAC is generated from this table."""

from tenancy.access import Access

ACCESS = (
    Access(
        "",
        ("nodes/proxy",),
        ("get", "create"),
        "Kubelets hand out their list of pods, logs, exec, attach and port-forward for nothing"
        " less; which of it a tenant gets, the agent's gate decides.",
    ),
    Access(
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("create", "get"),
        "Asks for its own serving certificate and fetches it.",
    ),
)
