"""Reads Hudi tables without Spark, draws them, and measures what queries on them cost."""
