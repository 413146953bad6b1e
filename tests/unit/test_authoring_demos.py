"""Rules for demos: the course's demos follow them, and every violation is reported."""

import pytest

from lab_env.course.authoring.demo_rules import demo_sources, problems_of_demo
from lab_env.course.source import LESSONS, read_lesson

PROOF = '# %% proof="The write made one log and no base file."'
SNAPSHOT = (LESSONS / "demos" / "snapshot.py").read_text()


def test_there_are_six_demos_and_all_keep_the_rules():
    demos = [read_lesson(path) for path in demo_sources(LESSONS)]
    names = ["cdc", "exactly-once", "incremental", "read-optimised", "snapshot", "time-travel"]
    assert [demo.name for demo in demos] == names
    assert [problem for demo in demos for problem in problems_of_demo(demo)] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('lesson: "09"', 'hour: "09"', "The front matter of a demo needs"),
        ("# # Demo · Who", "# # Who", "The first cell begins with the heading"),
        ("demo-snapshot", "demo-other", 'No cell calls Lab.start("demo-snapshot")'),
        ("## The twist", "## The turn", "The headings of a demo are"),
        ("assert in_the_log", "in_the_log", "A proof cell asserts something"),
        (PROOF, "# %%\n1\n\n" + PROOF, "and a proof cell right after it"),
        ('name="decisive"', "", "one code cell with name"),
        ("**Common error:**", "Error:", "need **Common error:**"),
        ("# %%\ndef status", '# %% exercise="09.1"\nseen[', "A demo has no exercise"),
    ],
)
def test_a_broken_rule_is_named(tmp_path, old, new, said):
    assert old in SNAPSHOT
    path = tmp_path / "snapshot.py"
    path.write_text(SNAPSHOT.replace(old, new))
    found = "\n".join(map(str, problems_of_demo(read_lesson(path))))
    assert said.lower() in found.lower()
