"""What readers of a Hudi table saw while it was written: recorded, judged and drawn."""
