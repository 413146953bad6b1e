"""Builds a lesson's notebooks and exercises from its source; CONTRIBUTING.md has the grammar."""
