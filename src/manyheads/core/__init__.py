"""Words that everyone shares; no attention is computed here."""
