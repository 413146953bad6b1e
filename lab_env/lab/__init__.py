"""The notebook's `lab`, the faults that it can cause, and the monitoring of its pipelines."""
