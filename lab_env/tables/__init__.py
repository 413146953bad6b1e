"""Hudi tables seen from outside: read without Spark, drawn, and measured while queries run."""
