"""What measures the lab: the tour, the benchmark, their samplers and reports."""
