"""Verbs that show what happens in and around a VirtualCluster: describe, events and logs."""
