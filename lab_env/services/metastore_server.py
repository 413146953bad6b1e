"""Runs the Hive Metastore of PySpark's own jars on one address of this machine.

Its own main method (Hive 2.3) listens on all addresses and has no setting for it. So this process
starts a Java beside it and makes the same server there, object by object, on the address it is told.
When this process ends, however it ends, that Java ends too.
"""

import os
import sys

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

WORKERS = 4  # threads that wait for clients; more are made as they come


def serve(java: str, class_path: str, options: list[str], host: str, port: int) -> None:
    """Serve until this process is ended.

    Args:
        java: the Java program.
        class_path: what it runs on; a folder of it has `hive-site.xml`.
        options: for Java.
        host: address to listen on.
        port: port to listen on.
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

    # HiveMetaStore.startMetaStore does this, without security and with a plain socket.
    conf = hive.conf.HiveConf()
    handler = hive.metastore.HiveMetaStore.HMSHandler("metastore of the lab", conf, False)
    handler = hive.metastore.RetryingHMSHandler.getProxy(conf, handler, False)
    listening = thrift.transport.TServerSocket(classes.java.net.InetSocketAddress(host, port))
    arguments = (
        thrift.server.TThreadPoolServer.Args(listening)
        .processor(hive.metastore.TSetIpAddressProcessor(handler))
        .minWorkerThreads(WORKERS)
    )
    print("the metastore serves", flush=True)
    thrift.server.TThreadPoolServer(arguments).serve()


if __name__ == "__main__":
    java, class_path, host, port, *options = sys.argv[1:]
    serve(java, class_path, options, host, int(port))
