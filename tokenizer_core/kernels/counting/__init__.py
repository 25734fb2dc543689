"""Words counted and numbered."""
