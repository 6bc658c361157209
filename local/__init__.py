"""Everything that one machine needs besides the services: PostgreSQL, Valkey, and what starts and stops them."""
