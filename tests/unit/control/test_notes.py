"""What is noted at a deploy beside what the unit's file says of itself."""

from dataclasses import replace

from sits.control._notes import deploy_notes
from sits.control._wanted import Release, Wanted
from sits.models import ModelKind, ModelPin
from tests.unit.control.builders import make_release, make_wanted

ENDPOINT = "https://models.example/v1"


def elsewhere(serves: str, prompt: str | None = None) -> Release:
    engine = {"kind": "openai", "endpoints": [ENDPOINT], "serves": serves}
    release = make_release(**({"prompt": prompt} if prompt else {}))
    assert release.unit is not None
    values = {**release.spec, "model": "openai://x", "engine": engine}
    return replace(release, unit=type(release.unit).model_validate(values))


def planned(release: Release) -> Wanted:
    return replace(make_wanted(), target=release, serving=None)


def test_a_prompt_of_an_embedding_model_is_said_to_be_unused() -> None:
    (note,) = deploy_notes(planned(elsewhere("embedding", prompt="{{ text }}")), None)
    assert note.startswith("prompt: is not used")


def test_a_prompt_of_a_chat_model_needs_no_note() -> None:
    assert deploy_notes(planned(elsewhere("chat", prompt="{{ text }}")), None) == ()


def test_the_kind_of_a_model_here_is_that_of_its_pin() -> None:
    pin = ModelPin("builtin://small", "sha256:0", 1, ModelKind.EMBEDDING)
    release = replace(make_release(prompt="{{ text }}"), pin=pin)
    (note,) = deploy_notes(planned(release), None)
    assert note.startswith("prompt: is not used")


def test_a_rollout_that_changes_what_a_unit_is_called_by_is_told() -> None:
    (note,) = deploy_notes(planned(elsewhere("embedding")), make_wanted())
    assert "/v1/chat/completions for it is refused" in note
    assert "/v1/embeddings answers" in note
    former = replace(make_wanted(), serving=elsewhere("embedding"))
    (note,) = deploy_notes(planned(elsewhere("chat")), former)
    assert "/v1/embeddings for it is refused" in note


def test_a_deleted_unit_of_another_kind_is_nobodys_business() -> None:
    assert deploy_notes(planned(elsewhere("embedding")), make_wanted(deleted=True)) == ()
