"""Calls to a Hive Metastore over Thrift."""

import io
from typing import Any

# The lab's part of Hive's hive_metastore.thrift. Unknown fields in replies are skipped.
INTERFACE = """
exception MetaException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidOperationException { 1: string message }

service ThriftHiveMetastore {
    list<string> get_all_databases() throws (1: MetaException failure)
    list<string> get_all_tables(1: string database) throws (1: MetaException failure)
    list<string> get_partition_names(1: string database, 2: string table, 3: i16 limit)
        throws (1: MetaException failure)
    void drop_database(1: string database, 2: bool delete_files, 3: bool with_tables)
        throws (1: NoSuchObjectException missing, 2: InvalidOperationException refused,
                3: MetaException failure)
}
"""


class HiveError(Exception):
    """The metastore does not answer, or answers with an exception."""


def call(uri: str, method: str, *arguments, seconds: float = 5) -> Any:
    """Call a method of `INTERFACE` at `thrift://host:port`; raise `HiveError` if it fails.

    The timeout in seconds applies to the connection, and to each part of the answer.
    """
    import thriftpy2  # with its RPC module, a sixth of a second
    from thriftpy2.protocol.cybin import ProtocolError  # ty: ignore[missing-module-member]: compiled
    from thriftpy2.rpc import client_context
    from thriftpy2.thrift import TException

    hive = thriftpy2.load_fp(io.StringIO(INTERFACE), "hive_metastore_thrift")
    timeout = int(seconds * 1000)
    try:
        with client_context(
            hive.ThriftHiveMetastore, url=uri, connect_timeout=timeout, socket_timeout=timeout
        ) as client:
            return getattr(client, method)(*arguments)
    except (TException, ProtocolError, OSError) as error:
        raise HiveError(getattr(error, "message", None) or str(error)) from None
