"""Additional networks of pods: definitions, annotations, policies, and a tenant's share of them."""
