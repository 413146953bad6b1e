"""Read and write small files in any store that Spark reaches, through Hadoop's file systems."""

from contextlib import closing

from pyspark.sql import SparkSession

NONE = -1  # no number


def exists(spark: SparkSession, path: str) -> bool:
    """True if a file or folder exists."""
    store, place = _place(spark, path)
    return store.exists(place)


def read(spark: SparkSession, path: str) -> str:
    """Text of a file."""
    store, place = _place(spark, path)
    with closing(store.open(place)) as file:
        return spark._jvm.org.apache.commons.io.IOUtils.toString(file, "UTF-8")


def write(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, replacing an existing one."""
    store, place = _place(spark, path)
    with closing(store.create(place, True)) as file:
        file.write(bytearray(text.encode()))


def newest(spark: SparkSession, folder: str) -> int:
    """Highest number among a folder's file names; `NONE` if no name is a number."""
    if not exists(spark, folder):
        return NONE
    store, place = _place(spark, folder)
    names = (status.getPath().getName() for status in store.listStatus(place))
    return max((int(name) for name in names if name.isdigit()), default=NONE)


def _place(spark: SparkSession, path: str):
    place = spark._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark._jsc.hadoopConfiguration()), place
