"""What a run comes to, for people: HTML and Markdown."""
