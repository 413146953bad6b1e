"""Downloads on demand: one file of a module, the needed part of a wheel."""

import subprocess
from xml.etree import ElementTree

from lab_env.platform.install import maven, wheels
from lab_env.platform.services import doctor


def test_a_classifier_names_one_of_a_modules_files(tmp_path):
    module = maven._write_module(tmp_path, ["io.debezium:connector:3.6"], "tar.gz", "plugin")
    (artifact,) = ElementTree.parse(module).iter("artifact")
    assert artifact.attrib == {
        "name": "connector",
        "type": "tar.gz",
        "ext": "tar.gz",
        "{http://ant.apache.org/ivy/maven}classifier": "plugin",
    }
    plain = ElementTree.parse(maven._write_module(tmp_path, ["a:b:1"], "jar", ""))
    assert not [name for name in next(plain.iter("artifact")).attrib if "classifier" in name]


def test_a_wheel_is_kept_without_the_folders_that_nobody_needs(home, monkeypatch, tmp_path):
    monkeypatch.setattr(wheels, "cache", lambda: tmp_path)
    monkeypatch.setattr(wheels, "uv_program", lambda: None)
    monkeypatch.setattr("lab_env.platform.install.cache.cache", lambda: tmp_path)
    pin = {"version": "1", "hashes": [], "leave_out": ["server/old"]}
    monkeypatch.setattr(wheels, "versions", lambda: {"wheels": {"server": pin}})

    def install(command, **_):
        target = command[command.index("--target") + 1]
        for part in ("old", "new"):
            (target / "server" / part).mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(wheels.subprocess, "run", install)
    wheels.fetch_wheel("server", tmp_path / "server-1", lambda line: None)
    assert [path.name for path in (tmp_path / "server-1" / "server").iterdir()] == ["new"]


def test_the_doctor_misses_no_jars_that_are_fetched_on_demand(home, monkeypatch):
    monkeypatch.setattr(doctor, "jars_fetched", lambda name: False)
    (finding,) = doctor._jars()
    assert finding.verdict == "ok" and "connect" not in finding.fact and "kafka" in finding.fact
