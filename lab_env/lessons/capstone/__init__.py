"""The capstone: three systems to build, their events, and the examiner that judges them.

A variant is a generator of events and an oracle: plain Python that computes the right answers from
the events alone. The examiner delivers the events in parts, kills the learner's job in between, and
compares the job's answers with the oracle. It reads no options and prescribes no approach.
"""

from lab_env.lessons.capstone.clickstream import CLICKSTREAM
from lab_env.lessons.capstone.fraud import FRAUD
from lab_env.lessons.capstone.iot import IOT
from lab_env.lessons.capstone.story import Variant

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in (CLICKSTREAM, IOT, FRAUD)}
