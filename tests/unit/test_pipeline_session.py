"""What a session's Hadoop configuration carries to every task."""

from lab_env.pipeline.session import forget_origins


def test_without_origins_a_configuration_says_the_same_in_less(spark):
    hadoop = spark._jvm.org.apache.hadoop.conf.Configuration
    before = hadoop(spark.sparkContext._jsc.hadoopConfiguration())
    assert before.getPropertySources("fs.defaultFS") is not None

    forget_origins(spark)

    after = hadoop(spark.sparkContext._jsc.hadoopConfiguration())
    assert after.getPropertySources("fs.defaultFS") is None
    assert after.getPropsWithPrefix("") == before.getPropsWithPrefix("")
    assert written(spark, after) < 0.8 * written(spark, before)


def written(spark, configuration) -> int:
    """The bytes that a configuration has where it is sent."""
    target = spark._jvm.java.io.ByteArrayOutputStream()
    configuration.write(spark._jvm.java.io.DataOutputStream(target))
    return target.size()
