"""Runs the Hive Metastore from PySpark's jars on a single address of this machine.

Hive 2.3's own main method listens on all addresses and has no setting for that. So this process
starts a JVM and builds the same server in it, object by object, on the given address. The JVM ends
with this process, even if this process is killed.
"""

import os
import sys

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

WORKERS = 4  # threads that wait for clients; the pool grows when more connect


def serve(java: str, class_path: str, options: list[str], host: str, port: int) -> None:
    """Run the server until this process ends.

    The class path has py4j's jar and the folder of `hive-site.xml`.
    """
    jars = class_path.split(os.pathsep)
    gateway_port, token = launch_gateway(
        jarpath=next(jar for jar in jars if "py4j" in os.path.basename(jar)),
        classpath=class_path,
        javaopts=options,
        java_path=java,
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=sys.stdout,
        redirect_stderr=sys.stderr,
    )
    parameters = GatewayParameters(port=gateway_port, auth_token=token)
    classes = JavaGateway(gateway_parameters=parameters).jvm
    hive, thrift = classes.org.apache.hadoop.hive, classes.org.apache.thrift

    # Same steps as HiveMetaStore.startMetaStore without security, on a plain socket.
    conf = hive.conf.HiveConf()
    handler = hive.metastore.HiveMetaStore.HMSHandler("lab metastore", conf, False)
    handler = hive.metastore.RetryingHMSHandler.getProxy(conf, handler, False)
    socket = thrift.transport.TServerSocket(classes.java.net.InetSocketAddress(host, port))
    arguments = (
        thrift.server.TThreadPoolServer.Args(socket)
        .processor(hive.metastore.TSetIpAddressProcessor(handler))
        .minWorkerThreads(WORKERS)
    )
    print("the metastore is serving", flush=True)
    thrift.server.TThreadPoolServer(arguments).serve()


if __name__ == "__main__":
    java, class_path, host, port, *options = sys.argv[1:]
    serve(java, class_path, options, host, int(port))
