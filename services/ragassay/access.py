"""Keys, what each may do, and whose project it belongs to."""
