"""Typed view of a SyncRule, its checks, its rights, and the tenants that it applies to."""
