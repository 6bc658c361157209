"""How good is what the product finds? Its search measured on public collections."""
