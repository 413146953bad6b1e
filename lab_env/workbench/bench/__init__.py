"""`lab bench`: measures this machine, and compares the three sinks on one stream.

`machine` measures set-up, session start and load generation; `backlog` and `growth` measure
catching up and the effect of table size. `rounds` runs the sinks as `config` specifies: each in a
`worker` process, called through `worker_client` and metered by `metering`. The figures go to
`results`, then through `summary` and `cost` to `report`.
"""
