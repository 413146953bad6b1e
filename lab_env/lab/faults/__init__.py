"""Deliberate faults: freeze, kill, pause and cut the lab's programs.

Tests, lessons and campaigns share them, so that each fault is the same everywhere. `freeze` works
on any process tree, `outages` on the lab's servers, `writers` on a streaming writer, `gate` on
chosen requests to the object store, and `full_disk` is a store without free space.
"""
