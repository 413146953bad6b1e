"""`lab eject`: the pipeline as a plain PySpark project that does not depend on the lab."""
