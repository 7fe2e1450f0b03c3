"""Tests of the layouts package."""
