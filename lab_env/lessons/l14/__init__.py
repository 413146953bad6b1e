"""Lesson 14's own code: hand-made streams, checks, drawings."""
