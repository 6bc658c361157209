"""Read-only SQL behind a guard."""
