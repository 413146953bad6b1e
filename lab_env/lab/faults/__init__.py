"""Deliberate faults: freeze, kill, pause and cut the lab's programs.

Tests, lessons and campaigns share them, so that a fault is the same everywhere. `freeze` works on
any process tree, `outages` on the lab's servers, `writers` on a streaming writer, and `gate` on
chosen requests to the object store. `full_disk` runs a store whose disk can be filled.
"""
