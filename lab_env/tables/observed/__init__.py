"""Reads of a Hudi table while it was written: recorded, judged and drawn."""
