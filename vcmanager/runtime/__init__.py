"""Context of a reconcile: clients, keys, observed objects, status."""
