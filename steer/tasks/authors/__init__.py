"""The task as the paper's authors write it: their words, prompts and episode files."""
