"""Inject faults: freeze or kill the lab's programs, and disrupt their connections.

Tests, lessons and campaigns share this code, so a fault is the same everywhere. `freeze` works on
any process tree, `outages` on the lab's servers, `writers` on a streaming writer, and `gate` on
chosen requests to the object store. `full_disk` runs a store whose disk can be filled.
"""
