"""Lesson 14's helper code: hand-made streams, checks and drawings."""
