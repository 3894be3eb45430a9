"""Alerts: which are new, and that a batch that may have been sent stays as it is."""

import json
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.audit.witness import AuditViolation
from hopring.spark.errors import ForeignInput

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.pipeline.alerts import (
    ALERTS_MAX,
    AlertBook,
    noted,
    of_gaps,
    of_violations,
    read_book,
    sent,
)

TWICE = AuditViolation(
    "", "2.5 no duplication", 1, "a delivered b:1 twice", {"process": "a#1", "message": "b:1"}
)
LOST = AuditViolation("", "2.7 virtual synchrony", 1, "c lacks b:2", {"process": "c#1", "message": "b:2"})


def gap(**changed: Any) -> dict[str, Any]:
    found = {"spool": "eu", "group": "g", "kind": "messages", "view": "3-1", "from_offset": None}
    return {**found, "messages": 2, "others": ["us"], "explained": False, **changed}


def test_an_alert_is_noted_once_whatever_its_rank_and_sentence() -> None:
    book = noted(AlertBook("app"), of_violations([TWICE, LOST, TWICE]))
    assert [json.loads(one)["text"] for one in book.pending] == [TWICE.witness, LOST.witness]
    assert json.loads(book.pending[0])["facts"]["property"] == "2.5 no duplication"

    later = sent(book)
    assert (later.batch, later.pending) == (1, ())
    again = msgspec.structs.replace(TWICE, rank=2, witness="in other words")
    assert noted(later, of_violations([again])) == later


def test_a_gap_is_the_same_gap_while_it_is_being_filled_and_an_explained_one_is_none() -> None:
    book = noted(AlertBook("app"), of_gaps([gap(), gap(explained=True, view="4-1")]))
    assert [json.loads(one)["text"] for one in book.pending] == [
        "eu lacks 2 records of g of view 3-1, which us have"
    ]
    assert noted(sent(book), of_gaps([gap(messages=1)])).pending == ()
    assert len(noted(sent(book), of_gaps([gap(view="4-1")])).pending) == 1


def test_more_alerts_than_fit_into_a_batch_are_counted_and_not_sent_later() -> None:
    many = of_gaps([gap(view=str(at)) for at in range(ALERTS_MAX + 5)])
    book = noted(AlertBook("app"), many)

    assert len(book.pending) == ALERTS_MAX + 1
    assert json.loads(book.pending[-1])["text"] == "5 more alerts were left out"
    assert noted(sent(book), many).pending == ()


def test_a_book_is_read_as_it_was_written_and_a_damaged_one_is_refused() -> None:
    book = noted(AlertBook("app", 7), of_violations([TWICE]))
    assert read_book(msgspec.json.encode(book).decode()) == book
    assert read_book(None).app != read_book(None).app
    with pytest.raises(ForeignInput, match=r"alerts.json: .*; remove it: all alerts of the next run"):
        read_book('{"app": "x"')
