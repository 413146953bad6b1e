"""Measures the cost of queries and writes, and compares measurements.

Five modules count reads or requests, each at a different level:

- `inputs`: bytes that Spark's tasks read, as a measure of the data that a query processed.
- `s3_requests`: HTTP requests that this process's S3 client sent, for example during one cell.
- `reads`: objects, offsets and bytes that were read, from the S3 client's debug log.
- `scans`: files that the scans of a query's plan read, that is, those left after pruning.
- `bucket_usage`: all requests to a bucket and their bytes, which a cloud would charge for.

`freshness` computes how long events take to become visible; `verdict` compares two variants over
several rounds.
"""
