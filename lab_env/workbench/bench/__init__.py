"""`lab bench`: measures this machine, and compares the three sinks on one stream.

`machine` compares ways to start and to load; `backlog` and `growth` measure how tables catch up and
grow. `rounds` runs the sinks as `config` says: each in a `worker` process, called through
`worker_client` and metered by `metering`. The figures go to `results`, then through `summary` and
`cost` to `report`.
"""
