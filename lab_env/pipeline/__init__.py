"""The finished pipeline that the course builds: Kafka to JSON files and Hudi tables, with dead letters."""
