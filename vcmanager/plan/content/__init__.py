"""Objects that vc-manager writes into a tenant for its administrators. Pure."""
