"""Names in a recipe that fails its schema: checked all the same, so that all faults are reported at once."""

from __future__ import annotations

from typing import Any

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.names import Names
from steer.base.errors import Key


def name_faults(data: Any, model: Names) -> list[tuple[Key, str]]:
    """The names in a recipe's raw data that the model does not have: for files that fail the schema as well."""
    names = KeyedNames(model)
    if not isinstance(data, dict):
        return []
    ports, nodes, sites = names.ports, names.nodes, names.sites
    readers = {"target": ports, "ports": ports, "chain": ports, "sources": nodes, "nodes": nodes}
    for key, read in (readers | {"freeze": sites, "tensors": sites}).items():
        read((key,), _texts(data.get(key)))
    measures = data.get("measures")
    for number, measure in enumerate(measures if isinstance(measures, list) else []):
        if isinstance(measure, dict):
            names.heads(("measures", number, "heads"), _texts(measure.get("heads")))
            names.nodes(("measures", number, "components"), _texts(measure.get("components")))
            names.site(("measures", number, "site"), measure.get("site"))
    sets = data.get("sets")
    for number, one in enumerate(sets if isinstance(sets, list) else []):
        if isinstance(one, dict):
            names.sites(("sets", number, "sites"), _texts(one.get("sites")))
    conditions = data.get("conditions")
    for number, condition in enumerate(conditions if isinstance(conditions, list) else []):
        for key in ("ablate", "keep", "among") if isinstance(condition, dict) else ():
            names.nodes(("conditions", number, key), _texts(condition.get(key)))
    return names.faults


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str)]
