"""Decisions about objects by a TenantPolicy, without a cluster."""
