"""What a session's Hadoop configuration carries to every task."""

from lab_env.pipeline.session import forget_origins


def test_without_origins_a_configuration_says_the_same_in_less(spark, tmp_path):
    hadoop = spark._jvm.org.apache.hadoop.conf.Configuration
    with_origins = hadoop()

    forget_origins(spark, scheme="file")
    spark.range(1).write.parquet(str(tmp_path / "rows"))  # loads more of Hadoop

    without = hadoop(spark.sparkContext._jsc.hadoopConfiguration())
    assert with_origins.getPropertySources("fs.defaultFS") is not None
    assert without.getPropertySources("fs.defaultFS") is None
    assert without.get("fs.defaultFS") == with_origins.get("fs.defaultFS")
    assert written(spark, without) < 0.8 * written(spark, with_origins)


def written(spark, configuration) -> int:
    """The bytes that a configuration has where it is sent."""
    target = spark._jvm.java.io.ByteArrayOutputStream()
    configuration.write(spark._jvm.java.io.DataOutputStream(target))
    return target.size()
