"""The page that compares this verifier with popular ways to test attention."""
