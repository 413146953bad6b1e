"""Monitors pipelines from outside, with metrics from the broker, the checkpoint and the timeline.

A writer's own metrics stop when the writer stops. So a separate process, the exporter, reads the
broker, the checkpoint and the table's timeline, and Prometheus stores the results.
"""
