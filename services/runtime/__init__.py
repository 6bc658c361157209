"""What every process needs in order to run. Knows no service."""
