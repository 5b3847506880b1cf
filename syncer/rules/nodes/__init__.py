"""Rules of virtual nodes."""
