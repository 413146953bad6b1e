"""The pipeline seen from outside: metrics, alert rules and a live page.

A writer's own metrics end with the writer. So another process, the exporter, reads the broker, the
checkpoint and the table's timeline, and Prometheus stores the results.
"""
