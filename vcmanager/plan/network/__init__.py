"""Network of a root namespace: who reaches which component of the control plane."""
