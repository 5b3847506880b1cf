"""The page for users has the verdict of the syncer on each field."""

from charts import generate, kinds_page
from syncer.model.field_rules import BuiltField, ListOfObjects, ObjectFields, iterate_leaf_paths
from syncer.rules import field_rule_tables, registry


def test_every_kind_that_is_carried_down_has_a_table():
    assert {row.resource.kind for row in registry.KINDS} <= set(field_rule_tables.DOWNWARD_TABLES)


def test_the_committed_page_is_what_the_generator_writes():
    page = generate.ROOT / generate.KINDS_PAGE
    assert page.read_text() == kinds_page.build_page(), "run `make generate`"


def test_every_leaf_of_every_table_is_on_the_page_or_named_by_another():
    lines = kinds_page.build_page().splitlines()
    shown = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    for parts in field_rule_tables.DOWNWARD_TABLES.values():
        for part in parts:
            for path, _ in iterate_leaf_paths(part.table, part.path):
                where = path.removeprefix(".")
                pointers = [p for p, line in shown.items() if "| as `" in line]
                assert where in shown or any(where.startswith(f"{p}.") for p in pointers), where


def test_what_becomes_of_a_field_is_reported_in_words():
    for line in kinds_page.build_page().splitlines():
        assert "depends on the policy" not in line
        assert not line.endswith("| special |"), f"{line}: give its Written a text"


def test_module_that_translates_a_leaf_exists():
    tables = {**field_rule_tables.DOWNWARD_TABLES, **field_rule_tables.UPWARD_TABLES}
    named = {
        verdict.module
        for parts in tables.values()
        for part in parts
        for _, verdict in iterate_leaf_paths(part.table, part.path)
        if isinstance(verdict, BuiltField)
    }
    assert named <= {path.stem for path in (generate.ROOT / "syncer").rglob("*.py")}


def test_every_leaf_of_the_page_has_a_verdict_of_its_own():
    assert kinds_page.describe_rule(BuiltField("x", "is y")) == "special: is y"
    assert {
        kinds_page.describe_rule(ObjectFields({})),
        kinds_page.describe_rule(ListOfObjects({})),
    } == {"by its own fields"}
