"""Vocabulary of VirtualClusterSnapshots: fields, view, and the request to restore one."""
