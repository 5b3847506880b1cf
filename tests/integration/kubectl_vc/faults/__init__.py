"""Seeded faults of all layers, and the layer that `kubectl vc why` and `doctor` name first."""
