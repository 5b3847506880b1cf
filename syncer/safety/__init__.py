"""Guards against wrong deletes and write storms."""
