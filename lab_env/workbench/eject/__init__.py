"""`lab eject`: the pipeline as a plain PySpark project that needs nothing of the lab."""
