"""Golden sets: questions with what a right answer needs, kept as versioned JSON lines."""
