"""The paper's claims, the rules that judge them, and their reproduction."""
