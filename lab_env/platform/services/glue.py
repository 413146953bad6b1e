"""Call AWS Glue, with the same interface as `hive`.

The credentials are the machine's own. boto3's variable `AWS_ENDPOINT_URL_GLUE` can set a different
endpoint.
"""

from typing import Any

from lab_env.platform.services.hive import HiveError

SCHEME = "glue://"  # the address of Glue in a region, for example `glue://eu-central-1`


def call(uri: str, method: str, *arguments, seconds: float = 5) -> Any:
    """Call a method of `hive.INTERFACE` at `glue://region`; raise `HiveError` if it fails."""
    import boto3  # half a second
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(
        connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 2}
    )
    client = boto3.client("glue", region_name=uri.removeprefix(SCHEME), config=config)
    try:
        return METHODS[method](client, *arguments)
    except (BotoCoreError, ClientError) as error:
        raise HiveError(str(error)) from None


def _partitions(client, database: str, table: str, limit: int) -> list[str]:
    keys = client.get_table(DatabaseName=database, Name=table)["Table"]["PartitionKeys"]
    found = client.get_paginator("get_partitions").paginate(DatabaseName=database, TableName=table)
    return [
        "/".join(f"{key['Name']}={value}" for key, value in zip(keys, one["Values"], strict=True))
        for page in found
        for one in page["Partitions"]
    ]


def _drop(client, database: str, delete_files: bool, with_tables: bool) -> None:
    client.delete_database(Name=database)  # with its tables; Glue owns no files


def _names(client, operation: str, field: str, **arguments) -> list[str]:
    pages = client.get_paginator(operation).paginate(**arguments)
    return [one["Name"] for page in pages for one in page[field]]


METHODS = {
    "get_all_databases": lambda client: _names(client, "get_databases", "DatabaseList"),
    "get_all_tables": lambda client, database: _names(
        client, "get_tables", "TableList", DatabaseName=database
    ),
    "get_partition_names": _partitions,
    "drop_database": _drop,
}
