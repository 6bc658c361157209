"""Results for questions in other words: a gate that is closed by kind, then similarity, then a second check."""
