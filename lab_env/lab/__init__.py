"""The notebook's `lab`, its faults, and its view of Prometheus."""
