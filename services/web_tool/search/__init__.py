"""Searches the public web: several providers behind one interface, with a fallback order and a breaker each."""
