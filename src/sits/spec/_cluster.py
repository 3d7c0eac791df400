"""The form that a unit has on a cluster: a Kubernetes object around the same fields.

    apiVersion: sits.dev/v1alpha1
    kind: IntelligenceUnit
    metadata: {name: ..., namespace: the tenant, labels: ...}
    spec: {every other field}

Both forms of a unit load to equal objects. What a cluster writes into its objects by itself
(`status`, `metadata.uid` and the like) is left out, with a note.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sits.spec._canonical import unit_values
from sits.spec._errors import SpecError
from sits.spec._field_hints import name_hint
from sits.spec._unit import Unit, field_names
from sits.spec._words import dotted, given, listed, nearest
from sits.spec._yaml import Document, Path

API_VERSION = "sits.dev/v1alpha1"
KIND = "IntelligenceUnit"

_PARTS = ("apiVersion", "kind", "metadata", "spec")
# The unit's field, and what it is called in `metadata`.
METADATA: Mapping[str, str] = {"name": "name", "tenant": "namespace", "labels": "labels"}
WRITTEN_BY_CLUSTERS = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


@dataclass(frozen=True)
class Form:
    """A file's values as the unit's fields.

    Attributes:
        values: the fields as in the plain form.
        is_cluster: the file has the cluster's form.
        notes: what was left out.
    """

    values: dict[str, Any]
    is_cluster: bool = False
    notes: tuple[str, ...] = ()

    def in_file(self, path: Path) -> Path:
        """Return where in the file a field of the unit is."""
        if not self.is_cluster or not path:
            return path
        name = str(path[0])
        if name in METADATA:
            return ("metadata", METADATA[name], *path[1:])
        return ("spec", *path)


def cluster_form(unit: Unit) -> dict[str, Any]:
    """Return a unit as the object that a cluster knows, of JSON's types.

    Labels are put in as they are; clusters take only short ones of letters, digits, '-', '_', '.'.
    """
    values = unit_values(unit)
    metadata = {
        there: values.pop(here) for here, there in METADATA.items() if values.get(here) is not None
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": values}


def read_form(document: Document, source: str) -> Form:
    """Return the unit's fields from a file of either form.

    Raises:
        SpecError: it is an object of a cluster, but not one of ours.
    """
    value = document.value
    is_cluster = "apiVersion" in value or "kind" in value or {"metadata", "spec"} <= value.keys()
    if not is_cluster:
        return Form(dict(value))
    reader = _Reader(document, source)
    reader.expect("apiVersion", API_VERSION)
    reader.expect("kind", KIND)
    reader.check_top()
    metadata, spec = reader.mapping("metadata"), reader.mapping("spec")
    reader.check_metadata(metadata)
    reader.check_spec(spec)
    values = dict(spec)
    for here, there in METADATA.items():
        if there in metadata:
            values[here] = metadata[there]
    left_out = [f"metadata.{name}" for name in metadata if name in WRITTEN_BY_CLUSTERS]
    left_out += ["status"] if "status" in value else []
    notes = (f"{listed(left_out, 'and')}: the cluster's own, left out",) if left_out else ()
    return Form(values, is_cluster=True, notes=notes)


@dataclass(frozen=True)
class _Reader:
    document: Document
    source: str

    def expect(self, name: str, wanted: str) -> None:
        value = self.document.value.get(name)
        if name not in self.document.value:
            raise self.error((name,), f"is missing; expected {wanted}")
        if value != wanted:
            hint = "; deploy each of its items by itself" if value == "List" else ""
            raise self.error((name,), f"is {given(value)}; expected {wanted}{hint}")

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.document.value.get(name)
        if isinstance(value, dict):
            return value
        what = "with at least `name`" if name == "metadata" else "with at least `model`"
        if name not in self.document.value:
            raise self.error((name,), f"is missing; expected a mapping {what}")
        raise self.error((name,), f"is {given(value)}; expected a mapping {what}")

    def check_top(self) -> None:
        for name in self.document.value:
            if name in {*_PARTS, "status"}:
                continue
            near = nearest(name, _PARTS)
            hint = f"did you mean `{near}`? " if near else name_hint(name)
            if name in field_names(()):
                hint = f"it belongs under `{self.place_of(name)}`; "
            elif name in METADATA.values():
                hint = "it belongs under `metadata`; "
            raise self.error((name,), f"is not a known field; {hint}expected {listed(_PARTS)}")

    def check_metadata(self, metadata: dict[str, Any]) -> None:
        for name in metadata:
            if name in {*METADATA.values(), *WRITTEN_BY_CLUSTERS}:
                continue
            near = nearest(name, METADATA.values())
            hint = f"did you mean `{near}`? " if near else name_hint(name)
            if name == "tenant":
                hint = "it is called `namespace` here; "
            elif name in field_names(()):
                hint = "it belongs under `spec`; "
            raise self.error(
                ("metadata", name),
                f"is not a known field; {hint}expected {listed(METADATA.values())}",
            )

    def check_spec(self, spec: dict[str, Any]) -> None:
        for here, there in METADATA.items():
            if here in spec:
                raise self.error(
                    ("spec", here), f"is in the wrong place; write it as `metadata.{there}`"
                )

    def place_of(self, name: str) -> str:
        return "metadata" if name in METADATA else "spec"

    def error(self, path: Path, problem: str) -> SpecError:
        return SpecError(
            problem,
            source=self.source,
            line=self.document.line_of(path),
            field=dotted(path),
        )
