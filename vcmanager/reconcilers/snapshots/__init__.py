"""Reconciles of VirtualClusterSnapshots, their schedules, and restores."""
