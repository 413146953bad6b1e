"""The capstone: three systems to build, the events they get, and the examiner that judges them.

A variant is a generator of events and an oracle: plain Python that says from the events alone what
is true. The examiner delivers the events in parts, kills the learner's job in between, and compares
what its answers say with the oracle. It reads no option and prescribes no path.
"""

from lab_env.capstone.clickstream import CLICKSTREAM
from lab_env.capstone.fraud import FRAUD
from lab_env.capstone.iot import IOT
from lab_env.capstone.story import Variant

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in (CLICKSTREAM, IOT, FRAUD)}
