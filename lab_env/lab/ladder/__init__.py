"""The ladder: attacks the function that a learner wrote for an exercise, rung by rung.

`rungs` has the table of exercises, rungs and promises, `answers` finds the function, `worker` calls
it in a process of its own, `attack` delivers events, kills, and compares the table with the ledger,
and `history` tells the life of one order in which something went wrong.
"""
