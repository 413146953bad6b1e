"""The fault campaign: injects kills, outages and damage into a pipeline and checks its tables.

`plan` lists the faults, `group` runs the pipeline, `faults` injects the faults, `judge` compares
the tables with the ledger of everything sent, and `report` shows the results. `verdicts.toml` has
the expected outcome of each fault, and the product that guarantees it.
"""
