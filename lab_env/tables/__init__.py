"""Hudi tables from outside: read without Spark, drawn, and what a query read of them."""
