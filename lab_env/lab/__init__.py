"""The notebooks' `lab` object, the injection of faults, and the monitoring of pipelines."""
