"""A program that starts its own session is configured by environment variables alone."""

from pathlib import Path

from lab_env.pipeline import session
from lab_env.platform.settings import Endpoints

HERE = Endpoints("http://s3", "key", "secret", "eu", "lake", "kafka:1")


def test_the_session_is_that_of_whoever_started_the_program(monkeypatch, tmp_path):
    told = session.session_environment(HERE, tmp_path / "jars", tmp_path / "java", "-Xint")
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    built = {}

    def build(endpoints, jars, java_home, app, extra, log):
        built.update(endpoints=endpoints, jars=jars, java=java_home, app=app, extra=extra, log=log)

    monkeypatch.setattr(session, "build_session", build)
    session.session_of_environment("a writer", {"spark.ui.enabled": "false"}, tmp_path / "log")
    assert built == {
        "endpoints": HERE,
        "jars": tmp_path / "jars",
        "java": tmp_path / "java",
        "app": "a writer",
        "extra": {"spark.driver.extraJavaOptions": "-Xint", "spark.ui.enabled": "false"},
        "log": tmp_path / "log",
    }


def test_the_secret_is_in_the_variable_of_the_stores_clients_only(tmp_path):
    told = session.session_environment(HERE, Path("jars"), Path("java"), "")
    assert [name for name, value in told.items() if "secret" in value] == ["AWS_SECRET_ACCESS_KEY"]


def test_without_keys_those_of_the_machine_stay():
    none = Endpoints("http://s3", "", "", "eu", "lake", "kafka:1")
    assert not [name for name in session.environment(none) if name.startswith("AWS")]


def test_only_a_session_whose_executor_is_itself_goes_on_after_any_silence():
    [limit] = session.slept("local[2]").values()
    assert int(limit) > 100 * 3600 * 1000
    assert session.slept("spark://host:7077") == {}  # there a lost executor is replaced
