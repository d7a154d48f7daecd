"""Rows and results made by hand."""

from __future__ import annotations

from typing import Any

from steer.results.details import Detail
from steer.results.provenance import Provenance, Weights
from steer.results.result import Result
from steer.results.rows import Row

ENDS = {"nothing ablated": "nothing", "everything ablated": "everything"}
UNITS = {"logit-attribution": "logit", "r-squared": "r2", "ov-alignment": "product"}


def made_row(value: float, low: float, high: float, **fields: Any) -> Row:
    """A row; its unit and its end of the scale are those of its measure and condition."""
    fields = {"condition": "clean", "measure": "m", "counted": 9, "examples": 9} | fields
    fields = {"unit": UNITS.get(fields["measure"], "share"), "end": ENDS.get(fields["condition"], "")} | fields
    return Row(value=value, low=low, high=high, **fields)


def made_result(rows: list[Row], *details: Detail, **provenance: Any) -> Result:
    given = {"name": "mine", "checkpoint": Weights("some weights"), "examples": 9, "wanted": 9, "figures": ("bars",)}
    return Result(Provenance(**given | provenance), rows, details=list(details))
