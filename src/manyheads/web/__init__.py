"""The page in the browser: the numbers it shows, the folder it is built to, and its server."""
