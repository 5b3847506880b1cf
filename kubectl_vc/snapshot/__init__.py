"""Verbs of `kubectl vc snapshot` and `kubectl vc restore`."""
