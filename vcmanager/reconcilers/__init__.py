"""Reconcilers of VirtualClusters and of what belongs to them."""
