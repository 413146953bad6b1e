"""The capstone: three systems for the learner to build, their events, and the examiner.

A variant has a generator of events and an oracle: plain Python that computes the right answers from
the events alone. The examiner delivers the events in parts, kills the learner's job in between, and
compares the job's answers with the oracle's. It never inspects options or prescribes an approach.
"""

from lab_env.lessons.capstone.clickstream import CLICKSTREAM
from lab_env.lessons.capstone.fraud import FRAUD
from lab_env.lessons.capstone.iot import IOT
from lab_env.lessons.capstone.story import Variant

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in (CLICKSTREAM, IOT, FRAUD)}
