"""The costs and permissions in docs/cloud.md equal the computed ones, line by line."""

import csv
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest
from cloud_template import ACCOUNT, EVERYTHING, REGION, STACK, many, resolved, statements, template

from lab_env.lessons.recorded import cost as bench_cost
from lab_env.platform import prices
from lab_env.platform.settings import REPOSITORY
from lab_env.workbench.cloud import cost

PAGE = (REPOSITORY / "docs" / "cloud.md").read_text(encoding="utf-8")
BUCKET = f"arn:aws:s3:::{STACK}-{ACCOUNT}-{REGION}"
HERE = f"{REGION}:{ACCOUNT}"
THINGS = {
    "a file of a table": f"{BUCKET}/tour/orders_cow/1.parquet",
    "another bucket's file": "arn:aws:s3:::payroll/2026.csv",
    "the bucket": BUCKET,
    "another bucket": "arn:aws:s3:::payroll",
    "a table of this database": f"arn:aws:glue:{HERE}:table/lakehouse/orders",
    "another database's table": f"arn:aws:glue:{HERE}:table/payroll/staff",
    "this database": f"arn:aws:glue:{HERE}:database/lakehouse",
    "a Glue job": f"arn:aws:glue:{HERE}:job/any",
    "the writer's log": f"arn:aws:logs:{HERE}:log-group:/lakehouse/{STACK}:log-stream:driver",
    "another log": f"arn:aws:logs:{HERE}:log-group:/payroll:*",
    "an alarm": f"arn:aws:cloudwatch:{HERE}:alarm:any",
    "anything": "*",
    "the stream": f"arn:aws:kinesis:{HERE}:stream/{STACK}",
    "a topic": f"arn:aws:kafka:{HERE}:topic/{STACK}/uuid/orders",
    "another cluster's topic": f"arn:aws:kafka:{HERE}:topic/payroll/uuid/orders",
    "the application": f"arn:aws:emr-serverless:{HERE}:/applications/<Application>",
    "another application": f"arn:aws:emr-serverless:{HERE}:/applications/other",
    "the writer's role": f"arn:aws:iam::{ACCOUNT}:role/JobRole",
    "another role": f"arn:aws:iam::{ACCOUNT}:role/admin",
}
# The role of the second article's repository, in the statements that matter.
BEFORE = [
    {"Effect": "Allow", "Action": ["s3:*", "glue:*", "logs:*", "cloudwatch:*"], "Resource": "*"},
    {"Effect": "Allow", "Action": "kinesis:*", "Resource": f"arn:aws:kinesis:*:*:stream/{STACK}"},
]
ROWS = re.findall(r"^\| `([\w-]+:\w+)` \| ([^|]+)" + r" \| (yes|no)" * 3 + r" \|$", PAGE, re.M)


def allows(policy: Iterable[dict], action: str, thing: str) -> bool:
    """Return True if statements allow an action on a resource; as in IAM, a denial wins."""
    effects = {
        one["Effect"]
        for one in policy
        if any(fnmatchcase(action, pattern) for pattern in many(one["Action"]))
        and any(fnmatchcase(thing, pattern) for pattern in many(one["Resource"]))
    }
    return effects == {"Allow"}


@pytest.fixture(scope="module")
def roles() -> dict[str, list[dict]]:
    """Policy statements of both roles, from the stacks with Kafka and with Kinesis."""
    stacks = [resolved(template(), **choice) for choice in EVERYTHING]
    return {
        role: [one for stack in stacks for one in statements(stack, role)]
        for role in ("JobRole", "HostRole")
    }


@pytest.mark.parametrize(("action", "thing", "before", "writer", "host"), ROWS)
def test_a_line_of_the_security_table_is_what_the_policies_say(
    roles, action, thing, before, writer, host
):
    policies = (BEFORE, roles["JobRole"], roles["HostRole"])
    found = [allows(policy, action, THINGS[thing]) for policy in policies]
    assert found == [answer == "yes" for answer in (before, writer, host)]


def test_the_table_uses_every_kind_of_thing_and_has_both_answers_of_each_role():
    assert {row[1] for row in ROWS} == set(THINGS)
    assert all({row[column] for row in ROWS} == {"yes", "no"} for column in (2, 3, 4))


@pytest.mark.parametrize("stream", cost.STREAMS)
def test_the_tables_of_cost_are_what_the_code_computes(stream):
    assert cost.markdown(stream) in PAGE


def test_a_bill_is_linear_in_its_prices_and_grows_with_time():
    free = dict.fromkeys(cost.ITEMS, 0.0)
    assert sum(cost.bill(cost.MONTH, prices=free).values()) == 0
    for item in cost.ITEMS:
        bills = [
            sum(cost.bill(hours, stream, prices=free | {item: 1.0}).values())
            for stream in cost.STREAMS
            for hours in (cost.AFTERNOON, cost.MONTH)
        ]
        assert max(bills) > 0, f"{item} is priced, and no bill has it"
        assert all(long >= short for short, long in zip(bills[::2], bills[1::2], strict=True))


def test_every_price_is_used_dated_and_marked():
    with prices.PRICES.open() as file:
        rows = list(csv.DictReader(file))
    used = set(bench_cost.ITEMS) | set(cost.ITEMS) | {"kpu"}  # the guide for readers from AWS
    assert {one["item"] for one in rows} == used
    assert {one["confirmed"] for one in rows} == {"yes", "no"}
    assert {one["region"] for one in rows} == {"us-east-1"}
    assert all(re.fullmatch(r"20\d\d(-\d\d)?", one["as_of"]) for one in rows)
    assert all(one["source"].startswith("https://") for one in rows)
