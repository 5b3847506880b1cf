"""Snapshots of tenants' etcd: decisions, Jobs and the program in their pods."""
