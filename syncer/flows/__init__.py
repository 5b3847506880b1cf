"""What is done for one key: the effects around the pure decisions, one file per kind of flow."""
