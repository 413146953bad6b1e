"""The notebooks' `lab` object, the faults that it can cause, and the monitoring of pipelines."""
