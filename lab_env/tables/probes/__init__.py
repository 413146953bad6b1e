"""Measures what queries and writes cost, and compares the measurements.

Five counters answer five questions about reading:

- `inputs`: bytes that Spark's tasks read. How much data did this query process?
- `s3_requests`: HTTP requests of this process's S3 client. How many requests did this cell send?
- `reads`: objects, offsets and bytes, from the client's debug log. Which parts of which files?
- `scans`: files in the scans of the plan. How many files were left after pruning?
- `bucket_usage`: all requests and bytes of a bucket, counted by MinIO. What would a cloud charge?

`freshness` computes how long events take to become visible; `verdict` compares measured rounds.
"""
