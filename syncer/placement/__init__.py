"""Assignment of pods to super clusters."""
