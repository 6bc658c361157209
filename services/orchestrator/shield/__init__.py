"""What keeps a run from obeying the text that its tools bring in."""
