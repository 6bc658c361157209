"""The description of the HTTP API: what every address takes and answers."""
