"""The pipeline that the course builds: Kafka to JSON files, Hudi tables and dead letters."""
