"""What the shell offers for a half-written word: names of recipes, checkpoints, heads. No torch: it must be quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steer.base.shipped import DEFAULT, checkpoint_names, everything, model_names, preset_names, recipe_names

if TYPE_CHECKING:
    from steer.anatomy.names import Names


def complete_recipe(incomplete: str) -> list[str]:
    return _starting(recipe_names(), incomplete)


def complete_checkpoint(incomplete: str) -> list[str]:
    return _starting([*checkpoint_names(), *model_names()], incomplete)


def complete_preset(incomplete: str) -> list[str]:
    return _starting(preset_names(), incomplete)


def complete_shipped(incomplete: str) -> list[str]:
    return _starting(sorted(everything()), incomplete)


def complete_head(ctx: Any, incomplete: str) -> list[str]:
    """Heads of the checkpoint that stands on the line, and the roles that some of them play."""
    return _starting(_names(ctx, heads_only=True), incomplete)


def complete_node(ctx: Any, incomplete: str) -> list[str]:
    """Heads and MLPs."""
    return _starting(_names(ctx, heads_only=False), incomplete)


def complete_site(ctx: Any, incomplete: str) -> list[str]:
    """Sites, and those of the heads that lead in a role by its name."""
    if (names := _known(ctx)) is None:
        return []
    sites = names.layout.sites
    leads = [(role, heads[0]) for role, heads in names.roles.items() if heads]
    played = [f"${role}.{site.port}" for role, lead in leads for site in sites if site.node == lead]
    return _starting([*map(str, sites), *played], incomplete)


def complete_numbering(incomplete: str) -> list[str]:
    return _starting(["paper", "trained", *checkpoint_names()], incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Hugging Face models."""
    return _starting(model_names(), incomplete)


def _names(ctx: Any, heads_only: bool) -> list[str]:
    if (names := _known(ctx)) is None:
        return []
    nodes = names.layout.heads if heads_only else names.layout.nodes
    return [*map(str, nodes), *(f"${role}" for role in names.roles)]


def _known(ctx: Any) -> Names | None:
    """What the checkpoint on the line calls its parts, if it can be read."""
    from steer.base.errors import SteerError
    from steer.models.families import names_of

    try:
        return names_of(ctx.params.get("checkpoint") or DEFAULT)
    except SteerError:
        return None


def _starting(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def complete_format(incomplete: str) -> list[str]:
    return _starting(["pdf", "svg"], incomplete)


def complete_figure(incomplete: str) -> list[str]:
    from steer.drawing.look import KINDS

    return _starting(list(KINDS), incomplete)
