"""Form of the tables of `kubectl vc why`: layers in order, each with a predicate and a sentence."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubectl_vc.diagnosis.object_facts import ObjectFacts


@dataclass(frozen=True, slots=True)
class LayerFinding:
    """The cause that a layer holds an object, and the next step."""

    sentence: str
    next_command: str
    """The command, or the request, that continues. Empty if there is nothing to do."""
    since: str = ""
    """RFC 3339. Empty if unknown."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One row: the name of a layer, and the function that finds out whether it holds an object."""

    name: str
    find: Callable[[ObjectFacts], LayerFinding | None]
    is_fault: bool = True
    """False for a row that describes a normal state."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The layer that holds an object."""

    layer: str
    finding: LayerFinding
    is_held: bool


def diagnose(facts: ObjectFacts, layers: Iterable[Layer]) -> Diagnosis:
    """Return the first layer of the table that holds the object.

    The last row of a table must always match.
    """
    for layer in layers:
        finding = layer.find(facts)
        if finding is not None:
            return Diagnosis(layer.name, finding, layer.is_fault)
    raise LookupError("the last row of the table did not match")
