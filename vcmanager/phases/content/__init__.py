"""Content that the super cluster puts into a tenant: DNS servers, shared objects, manifests."""
