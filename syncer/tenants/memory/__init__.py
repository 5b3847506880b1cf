"""Memory of a session between reconciles, one module per subject."""
