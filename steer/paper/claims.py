"""The paper's claims as data: each with its figure, the recipe that shows it and the rule that judges it."""

from __future__ import annotations

from collections.abc import Mapping

from steer.paper.rules import (
    alignment,
    answers_follow,
    attention_accuracy,
    attention_follows,
    attribution,
    carries,
    changed,
    erased,
    exact_match,
    lowered,
    main_source,
    needed_sources,
    survives,
)
from steer.paper.verdicts import AS, DIFFERS, FULL, Claim, Roles, Verdict
from steer.results.result import Result

CLUSTERS = "clear clusters (Fig. 6)"
TRACED = "clear clusters (Fig. 10)"
ROLES = {  # role -> the paper's head, and the heads that it says do the same
    "output": "Dec-cross-1.5 (with 1.1, 1.3)",
    "primitive-pairing": "Enc-self-1.1 (with 1.0)",
    "question-broadcast": "Enc-self-0.5 (with 0.7)",
    "rhs-scanner": "Dec-cross-0.6 (with 0.0, 0.3)",
    "primitive-retrieval": "Enc-self-1.0",
    "function-retrieval": "Enc-self-1.2",
}
KEPT, NO_BROADCAST, NO_PAIRING = (
    "only retrieval heads kept",
    "Question-Broadcast ablated",
    "Primitive-Pairing ablated",
)
NO_PRIMITIVE, NO_FUNCTION, NO_SCANNER = (
    "Primitive-Retrieval ablated",
    "Function-Retrieval ablated",
    "RHS-Scanners ablated",
)
QUESTION, RELATIVE = "fig06_index_in_question", "fig10_relative_index"

CLAIMS = (
    Claim("text", "accuracy", "held-out episodes are answered exactly", "98 %", exact_match),
    Claim(
        "2a", "fig02a_logit_attribution", "the Output Head writes more of the right logit than other heads", "yes",
        attribution,
    ),
    Claim(
        "2c", "fig02c_attention_accuracy", "it looks at the next token, positions 1 to 3", "> 90 %", attention_accuracy,
    ),
    Claim("2d", "fig02d_ov_alignment", "its OV output aligns with the token's unembedding", "strongly", alignment),
    Claim("5a, 4", "fig05a_k_sources", "Primitive-Pairing is the main head into its K", "yes",
          main_source("primitive-pairing")),
    Claim("5b", "fig05b_k_chain", "Question-Broadcast is the main head before Primitive-Pairing", "yes",
          main_source("question-broadcast")),
    Claim("6a", QUESTION, "Question-Broadcast Z holds the index in the question", CLUSTERS,
          carries("question-broadcast", "z")),
    Claim("6b", QUESTION, "Primitive-Pairing Z holds it", CLUSTERS, carries("primitive-pairing", "z")),
    Claim("6c", QUESTION, "Output K holds it", CLUSTERS, carries("output", "k")),
    Claim("6b", QUESTION, "without Question-Broadcast it is gone from Primitive-Pairing Z", "obliterated",
          changed("primitive-pairing", "z", NO_BROADCAST, erased)),
    Claim("6c", QUESTION, "without Primitive-Pairing (and Primitive-Retrieval) it is disrupted in Output K",
          "disrupted", changed("output", "k", NO_PAIRING, lowered)),
    Claim("8a", "fig08a_q_sources", "the RHS-Scanner is the main head into the Output Head's Q", "yes",
          main_source("rhs-scanner")),
    Claim("9a", "fig09_q_chain", "Primitive- and Function-Retrieval are needed for the RHS-Scanner's V", "both",
          needed_sources(("primitive-retrieval", "function-retrieval"))),
    Claim("10a", RELATIVE, "RHS-Scanner Z holds the relative index on the LHS", TRACED, carries("rhs-scanner", "z")),
    Claim("10b", RELATIVE, "Output Q holds it", TRACED, carries("output", "q")),
    Claim("10a", RELATIVE, "the writes of the two retrieval heads alone are enough for RHS-Scanner Z", "sufficient",
          changed("rhs-scanner", "z", KEPT, survives)),
    Claim("10b", RELATIVE, "the writes of the two retrieval heads alone are enough for Output Q", "sufficient",
          changed("output", "q", KEPT, survives)),
    Claim("10a", RELATIVE, "without Primitive-Retrieval it is disrupted in RHS-Scanner Z", "disrupted",
          changed("rhs-scanner", "z", NO_PRIMITIVE, lowered)),
    Claim("10a", RELATIVE, "without Function-Retrieval it is disrupted in RHS-Scanner Z", "disrupted",
          changed("rhs-scanner", "z", NO_FUNCTION, lowered)),
    Claim("10b", RELATIVE, "without the RHS-Scanners it is gone from Output Q", "eliminated",
          changed("output", "q", NO_SCANNER, erased)),
    Claim("11", "swap_index",
          "with the indices exchanged in the Question-Broadcast Heads, the Output Head's attention changes sides",
          "yes", attention_follows),
    Claim("text", "swap_index", "the answers follow the exchange", "not completely", answers_follow),
)  # fmt: skip


def judge_all(
    results: Mapping[str, Result], roles: Roles, missing: Mapping[str, str], status: str = FULL
) -> list[Verdict]:
    """The whole table: the heads in each role, then every claim. `missing`: recipe -> why it has no result."""
    judged = [claim.judge(results.get(claim.recipe), roles, missing.get(claim.recipe, ""), status) for claim in CLAIMS]
    return [*(_judge_role(role, head, roles, status) for role, head in ROLES.items()), *judged]


def _judge_role(role: str, paper: str, roles: Roles, status: str) -> Verdict:
    heads = ", ".join(roles.get(role, ()))
    verdict = f"{AS} (head numbers depend on the seed)" if heads else f"{DIFFERS}: no head plays it"
    rule = "`steer discover` finds a head that fits the role more than half the way from chance to always, and matters"
    claim = f"a head plays the role {role}"
    return Verdict("3", claim, paper, heads or "none", rule, verdict, None, None, None, "circuit.yaml", status)
