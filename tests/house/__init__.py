"""Tests of the repository itself. Each has a bad sample on which it is seen to fail."""
