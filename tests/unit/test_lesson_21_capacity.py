"""Lesson 21's fit recovers the true line within its interval; the laws agree at two cores."""

import numpy as np
import pandas as pd
import pytest

from lab_env.lessons.l21.capacity import (
    Line,
    fit,
    serial_share,
    speedup_by_usl,
)
from lab_env.platform.errors import LabError

TRUE = Line(a=1.3, b=0.0001)


def batches(noise: float = 0.0, rounds: int = 3, seed: int = 21) -> pd.DataFrame:
    """Return batch times of a machine that follows `TRUE`, with up to `noise` seconds of noise."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "cores": cores,
            "rows": rows,
            "seconds": TRUE.seconds(rows, cores) + random.uniform(-noise, noise),
        }
        for cores in (1, 2)
        for rows in (2_416, 19_326)
        for _ in range(rounds)
    )


def test_the_line_of_exact_batches_is_found():
    fitted = fit(batches())
    assert fitted.line.a == pytest.approx(TRUE.a) and fitted.line.b == pytest.approx(TRUE.b)
    assert len(fitted.allowed) == 3**4
    assert fitted.a.high - fitted.a.low < 1e-9


def test_noise_widens_what_the_rounds_allow_and_the_truth_is_inside():
    quiet, loud = fit(batches(0.02)), fit(batches(0.4))
    assert loud.b.high - loud.b.low > quiet.b.high - quiet.b.low
    for fitted in (quiet, loud):
        assert fitted.a.low <= TRUE.a <= fitted.a.high
        assert fitted.b.low <= TRUE.b <= fitted.b.high


def test_one_amount_of_work_leaves_the_line_open():
    with pytest.raises(LabError, match="two different amounts"):
        fit(batches().query("cores == 1 and rows == 2416"))


def test_a_larger_batch_uses_more_cores():
    speedups = [TRUE.speedup(rows, 64) for rows in (2_416, 19_326, 2_000_000)]
    assert speedups == sorted(speedups) and 1 < speedups[0] < speedups[-1] < 64


def test_a_speed_up_of_1_7_promises_4_4_at_16_and_5_3_at_64_cores_by_amdahl():
    serial = serial_share(1.7)
    assert speedup_by_usl(16, serial, 0) == pytest.approx(4.4, abs=0.05)
    assert speedup_by_usl(64, serial, 0) == pytest.approx(5.3, abs=0.05)


@pytest.mark.parametrize("talk", [0.0, 0.001, 0.01])
def test_every_law_goes_through_the_two_measured_points(talk):
    serial = serial_share(1.7, talk)
    assert speedup_by_usl(1, serial, talk) == 1
    assert speedup_by_usl(2, serial, talk) == pytest.approx(1.7)
