"""`lab bench`: this machine, and the three sinks on one stream, measured in turn.

`machine` compares ways to start and to load; `rounds` runs the sinks, `verdict` says what the spread of
the rounds allows to say, `page` draws the report.
"""
