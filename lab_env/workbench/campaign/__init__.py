"""The fault campaign: kills, outages and damage on a running pipeline, judged by a ledger.

`plan` lists the faults, `group` runs the pipeline, `victims` injects the faults, `judge` compares
the tables with the ledger, and `report` shows the results. `verdicts.toml` has the expected outcome
of each fault and the product that guarantees it.
"""
