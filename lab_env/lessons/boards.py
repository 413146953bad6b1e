"""The shop's board (revenue by status) as a dictionary, so that checks can compare two boards."""

from collections.abc import Mapping
from decimal import Decimal

import pandas as pd

from lab_env.course.answers import as_number, as_rows, as_text
from lab_env.course.checking import expect

Orders = Mapping[str, tuple[str, Decimal]]  # status and amount by order_id
Board = Mapping[str, Decimal]  # revenue by status


def as_board(answer: object) -> Board:
    """Convert an answer (a table of status and revenue, or a dictionary) to revenue by status.

    Raises `Unreadable` for any other answer, and `NotYet` if a status has two rows.
    """
    if isinstance(answer, pd.Series):
        answer = answer.to_dict()
    if isinstance(answer, Mapping) and "revenue" not in answer:
        return {as_text(status): as_number(revenue) for status, revenue in answer.items()}
    rows = as_rows(answer, ("status", "revenue"))
    board = {as_text(status): as_number(revenue) for status, revenue in rows}
    expect(
        len(board) == len(rows), "Your board has {} rows for {} statuses.", len(rows), len(board)
    )
    return board


def expect_decimal(answer: object) -> None:
    """Check that a board that is a DataFrame of Spark keeps its sums as decimals."""
    kind = dict(getattr(answer, "dtypes", ())).get("revenue", "decimal")
    expect(
        str(kind).startswith("decimal") or isinstance(answer, pd.DataFrame),
        "The sums are right, but `revenue` is a {}, which rounds when sums grow: right to the cent "
        "is a decimal, as the amounts are.",
        kind,
    )


def board_of(orders: Orders) -> Board:
    """Compute the board from a table's rows."""
    board: dict[str, Decimal] = {}
    for status, amount in orders.values():
        board[status] = board.get(status, Decimal(0)) + amount
    return board


def board_text(board: Board) -> str:
    """Return the board in one line, for example `new 39.00, paid 10.00`."""
    return ", ".join(f"{status} {revenue}" for status, revenue in sorted(board.items())) or "none"
