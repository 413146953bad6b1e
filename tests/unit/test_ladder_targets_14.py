"""The totals that the ladder expects of lesson 14's board are those of what was sent."""

import pandas as pd

from lab_env.lab.ladder.target import target_of

BOARD = target_of("14.4")
MINUTE = 60_000_000  # microseconds


def sends(*rows: tuple[int, str, str, str]) -> pd.DataFrame:
    """Make sends from (minute, operation, kind, amount)."""
    columns = ["order_ts", "op", "kind", "value", "send_id"]
    lines = [
        (at * MINUTE, op, kind, f'{{"amount": {amount}}}', str(n))
        for n, (at, op, kind, amount) in enumerate(rows)
    ]
    return BOARD.keyed(pd.DataFrame(lines, columns=columns))


SENT = sends(
    (0, "create", "event", "19.90"),
    (0, "create", "resend", "19.90"),
    (0, "update", "event", "7"),
    (1, "create", "late", '"0.10"'),
    (1, "create", "malformed:not_json", "5"),
)


def shown(*rows: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["key", "event"])


def test_resends_count_and_updates_and_malformed_messages_do_not():
    right = shown(("1970-01-01 00:00", "2 orders, 39.80"), ("1970-01-01 00:01", "1 orders, 0.10"))
    assert not BOARD.judge(SENT, right).wrong


def test_a_wrong_total_and_a_second_row_are_told():
    second = ("1970-01-01 00:01", "1 orders, 0.10")
    verdict = BOARD.judge(SENT, shown(("1970-01-01 00:00", "1 orders, 19.90"), second, second))
    assert "1 minute is in your output with another value (1970-01-01 00:00)" in verdict.text
    assert "more than once (1970-01-01 00:01)" in verdict.text
