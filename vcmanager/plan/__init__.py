"""Plan of a tenant's control plane. Pure."""
