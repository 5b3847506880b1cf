"""Clusters that may run tenants' pods: whether they could, and why not."""
