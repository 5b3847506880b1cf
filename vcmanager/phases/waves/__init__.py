"""Rollout of changed control planes to the tenants of a ClusterVersion, in waves."""
