"""What work cost, and what measurements allow to say.

Five counters answer five questions about reading:

| module         | counts                                       | use it to ask                           |
|----------------|----------------------------------------------|-----------------------------------------|
| `inputs`       | bytes that Spark's tasks read                | how much data did this query process?   |
| `requests`     | HTTP requests of this process's S3 client    | how many requests did this cell send?   |
| `reads`        | objects, offsets, bytes, from S3A's debug log | which files did it open, and where?    |
| `scans`        | files in the plan's scans                    | how many files were left after pruning? |
| `bucket_usage` | all requests and bytes of a bucket, by MinIO | what would a cloud charge for this?     |

`sampling` watches memory and the store over time, `freshness` ages of events, `verdict` compares rounds.
"""
