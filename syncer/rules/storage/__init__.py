"""Rules of claims and volumes."""
