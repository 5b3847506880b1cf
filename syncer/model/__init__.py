"""Data model of the syncer: keys, field rules, metadata, differences and views. Pure."""
