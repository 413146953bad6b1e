"""Monitoring of pipelines from outside: metrics from broker, checkpoint and timeline.

A writer's own metrics stop when the writer stops. So another process, the exporter, reads the
broker, the checkpoint and the table's timeline, and Prometheus stores the results.
"""
