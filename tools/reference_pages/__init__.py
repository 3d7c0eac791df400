"""The documents that are made from the code, one module for each.

    _units        fields of a unit's file, from `sits.spec`
    _settings     settings, from `sits.node.Settings`
    _commands     commands, arguments and options, from the command's own tree
    _errors       error classes and codes, from `sits` imported whole and `_codes`
    _codes        the codes that stand in the source, where an error is made
    _routes       the control API, from the OpenAPI document that it serves
    _lifecycles   diagrams, from the transition tables of `sits.control`
    _markdown     tables and marks

Only the sentences between the tables are written here, and the meanings of codes that have no
class of their own. `PAGES` gives every document by its path under `docs/`.
"""

from collections.abc import Callable, Mapping

from reference_pages._commands import make_commands_page
from reference_pages._errors import make_errors_page
from reference_pages._lifecycles import make_lifecycles_page
from reference_pages._routes import make_routes_page
from reference_pages._settings import make_settings_page
from reference_pages._units import make_units_page

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/units.md": make_units_page,
    "reference/settings.md": make_settings_page,
    "reference/cli.md": make_commands_page,
    "reference/errors.md": make_errors_page,
    "reference/api.md": make_routes_page,
    "explanation/lifecycles.md": make_lifecycles_page,
}

__all__ = ["PAGES"]
