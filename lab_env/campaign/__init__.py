"""The fault campaign: kills, outages and damage on a running pipeline, judged by a ledger.

`plan` says what is done, `group` runs the pipeline that it is done to, `victims` does it, `judge`
compares the tables with the ledger, and `report` shows what came of it. What is to be expected of
each fault, and who promises it, stands in `verdicts.toml`.
"""
