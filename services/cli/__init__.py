"""The sabueso command."""
