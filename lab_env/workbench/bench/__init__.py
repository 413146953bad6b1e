"""`lab bench`: measures this machine, and compares the three sinks on one stream.

`machine` measures set-up, session start and load generation; `backlog` measures catching up, and
`growth` the effect of table size. `rounds` runs the sinks as `config` specifies: each in a `worker`
process, called through `worker_client` and metered by `metering`. `results` collects the figures,
`summary` and `cost` evaluate them, and `report` shows them.
"""
