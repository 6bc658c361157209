"""Who may come in, and with which rights: API keys, tokens of identity providers, and their administration."""
