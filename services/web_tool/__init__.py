"""Web search and page reading behind a guard."""
