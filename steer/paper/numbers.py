"""The paper's heads by role, in the authors' network of 2+2 layers with 8 heads each."""

from __future__ import annotations

from steer.anatomy.names import Roles
from steer.anatomy.nodes import parse_node

PAPER_HEADS: Roles = {
    "output": (parse_node("dec-cross-1.5"),),
    "rhs-scanner": (parse_node("dec-cross-0.6"),),
    "primitive-pairing": (parse_node("enc-self-1.1"),),
    "question-broadcast": (parse_node("enc-self-0.5"),),
    "primitive-retrieval": (parse_node("enc-self-1.0"),),
    "function-retrieval": (parse_node("enc-self-1.2"),),
}
