"""What of an earlier conversation the model gets to read."""
