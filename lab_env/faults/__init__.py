"""Faults on purpose: freeze, kill, pause and cut what the lab runs.

Tests, lessons and campaigns share them, so that each fault is the same wherever it is injected.
`processes` works on any process tree, `services` on the lab's servers, `writers` on a streaming
writer.
"""
