"""The pipeline seen from outside: metrics, alert rules and a live page.

What the writer says about itself ends with the writer. So another process, the exporter, asks the
broker, the checkpoint and the table's timeline, and Prometheus keeps its answers.
"""
