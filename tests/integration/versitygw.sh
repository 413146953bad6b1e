#!/bin/sh
# Runs VersityGW (`versitygw` on PATH) with the arguments and keys that the lab gives MinIO:
#     LAB_MINIO_BINARY=$PWD/tests/integration/versitygw.sh lab tour
# Objects are files below minio/versitygw in LAB_HOME, so MinIO's tables stay what they are.
[ "$1" = server ] || exec versitygw "$@"
mkdir -p versitygw
export ROOT_ACCESS_KEY="$MINIO_ROOT_USER" ROOT_SECRET_KEY="$MINIO_ROOT_PASSWORD" VGW_REGION="$MINIO_REGION"
exec versitygw --port "$3" --health /minio/health/ready --quiet posix versitygw
