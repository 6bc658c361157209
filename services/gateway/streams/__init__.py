"""Answers that come in pieces: framed on bytes, passed on as they came, and honest about how they end."""
