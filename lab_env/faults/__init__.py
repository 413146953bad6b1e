"""Faults on purpose: freeze, kill, pause and cut what the lab runs.

Tests, lessons and campaigns share them, so that each fault is the same wherever it is injected.
`freeze` works on any process tree, `outages` on the lab's servers, `writers` on a streaming writer,
`gate` on chosen requests to the object store, and `full_disk` is a store that has no room left.
"""
