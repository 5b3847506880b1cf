"""Kubernetes' own conformance suite, in a tenant and straight on the super cluster beside it."""
