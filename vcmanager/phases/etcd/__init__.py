"""Phases about the etcd of a tenant: its identity and its members."""
