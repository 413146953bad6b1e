"""What a lesson holds in its hand:  itself, its faults, and its view of Prometheus."""
