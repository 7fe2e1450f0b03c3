"""The page in the browser: its models, its files and its server."""
