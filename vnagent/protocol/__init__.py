"""HTTP and kubelet protocol: routes, heads, errors."""
