"""Rules of ConfigMaps and Secrets."""
