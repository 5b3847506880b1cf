"""Programs that are measured, and what they use of the machine."""
