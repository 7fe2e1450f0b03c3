"""Programs for contributors: they run from a checkout and are not part of the wheel."""
