"""Cost of work, and conclusions from measurements.

Five counters answer five questions about reading:

- `inputs`: bytes that Spark's tasks read. How much data did this query process?
- `requests`: HTTP requests of this process's S3 client. How many requests did this cell send?
- `reads`: objects, offsets and bytes, from the client's debug log. Which parts of which files?
- `scans`: files in the scans of the plan. How many files were left after pruning?
- `bucket_usage`: all requests and bytes of a bucket, counted by MinIO. What would a cloud charge?

`freshness` has the ages of events, `verdict` compares rounds.
"""
