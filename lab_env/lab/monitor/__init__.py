"""The pipeline seen from outside: the metrics of broker, checkpoint and timeline.

A writer's own metrics end with the writer. So another process, the exporter, reads the broker, the
checkpoint and the table's timeline, and Prometheus stores the results.
"""
