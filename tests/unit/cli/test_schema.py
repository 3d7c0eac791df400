"""`sits iu schema`."""

import json

import jsonschema
import pytest
from typer.testing import CliRunner

from sits.cli._app import app


@pytest.mark.parametrize("arguments", [[], ["-o", "json"]])
def test_prints_a_json_schema_that_knows_a_unit(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["iu", "schema", *arguments])
    schema = json.loads(result.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"name": "a", "model": "builtin://x"})
    assert not validator.is_valid({"name": "a", "modle": "builtin://x"})
