"""The Kubernetes Job matches the schema of Kubernetes 1.37, and requests no unneeded permission.

The schema is an excerpt of the strict one in kubernetes-validate 1.37.0: only the four kinds used
here, without descriptions. The full package would add 72 MB to every installation.
"""

import copy
import gzip
import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from lab_env.workbench.cloud import TEMPLATE, emr_writer, job

DOCUMENTS = {
    one["kind"]: one
    for one in yaml.safe_load_all((TEMPLATE.parent / "job.yaml").read_text(encoding="utf-8"))
}
SCHEMA_FILE = Path(__file__).with_name("kubernetes-1.37.json.gz")
SCHEMA = json.loads(gzip.decompress(SCHEMA_FILE.read_bytes()))


def mistakes(document: dict) -> list[str]:
    """Return the schema's errors for a document."""
    kind = SCHEMA["kinds"][document["kind"]]
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


def pod(document: dict) -> dict:
    return document["spec"]["template"]["spec"]


@pytest.mark.parametrize("kind", ["ServiceAccount", "Role", "RoleBinding", "Job"])
def test_each_document_fits_the_schema(kind):
    assert mistakes(DOCUMENTS[kind]) == []
    assert set(DOCUMENTS) == set(SCHEMA["kinds"])


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Job", lambda one: one["spec"].update(backofLimit=3)),
        ("Job", lambda one: one["spec"].update(activeDeadlineSeconds="4h")),
        ("Job", lambda one: pod(one)["containers"][0].pop("name")),
        ("Job", lambda one: pod(one)["containers"][0].update(env={"POD_IP": "x"})),
        ("Job", lambda one: one.update(apiVersion="batch/v1beta1")),
        ("Role", lambda one: one["rules"][0].pop("verbs")),
        ("RoleBinding", lambda one: one.pop("roleRef")),
        ("ServiceAccount", lambda one: one.update(rules=[])),
    ],
)
def test_a_document_with_a_mistake_does_not(kind, change):
    twin = copy.deepcopy(DOCUMENTS[kind])
    change(twin)
    assert mistakes(twin)


def test_the_role_reaches_no_secret_no_star_and_no_other_namespace():
    asked = DOCUMENTS["Role"]["rules"]
    reached = {resource for rule in asked for resource in rule["resources"]}
    assert reached == {"pods", "configmaps", "persistentvolumeclaims"}
    assert not [rule for rule in asked if "*" in rule["verbs"] + rule["apiGroups"]]
    assert {one["metadata"]["namespace"] for one in DOCUMENTS.values()} == {"lakehouse"}
    binding = DOCUMENTS["RoleBinding"]
    account = DOCUMENTS["ServiceAccount"]["metadata"]["name"]
    assert binding["roleRef"]["kind"] == "Role"
    assert [one["name"] for one in binding["subjects"]] == [account]
    assert pod(DOCUMENTS["Job"])["serviceAccountName"] == account


def test_the_job_ends_by_itself_and_is_no_root():
    document = DOCUMENTS["Job"]
    assert document["spec"]["activeDeadlineSeconds"] <= 4 * 3600
    assert pod(document)["securityContext"]["runAsNonRoot"] is True
    container = pod(document)["containers"][0]["securityContext"]
    assert container == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_its_session_is_that_of_the_job_on_emr_and_its_writer_reads_its_arguments():
    arguments = pod(DOCUMENTS["Job"])["containers"][0]["args"]
    words = (one.removeprefix("--conf=") for one in arguments if one.startswith("--conf="))
    conf = dict(word.split("=", 1) for word in words)
    assert job.SESSION.items() <= conf.items()
    cores = int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"])
    assert int(conf["spark.sql.shuffle.partitions"]) == cores
    program = next(i for i, one in enumerate(arguments) if one.endswith("emr_writer.py"))
    read = emr_writer._parse(arguments[program + 1 :])
    assert (read.folder, read.seconds, read.cores) == ("pipeline", 60, cores)
