"""The verbs of `kubectl vc target`."""
