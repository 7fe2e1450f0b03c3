"""Tests of the layouts room."""
