"""The `sabueso` command."""


def main() -> None:
    """Entry point."""
