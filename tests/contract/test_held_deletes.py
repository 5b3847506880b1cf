"""What the syncer says of a store, the command line understands."""

from syncer import brake
from tenancy import conditions

STORE = "0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11"


def test_the_message_of_the_syncer_names_the_store_to_confirm():
    told = brake.sentence("it is another store than the one that was synced before", STORE, "web")
    assert conditions.named_store(told) == STORE
    assert "kubectl vc confirm-deletes web" in told


def test_a_store_without_kube_system_cannot_be_confirmed():
    assert conditions.named_store(brake.sentence("it is empty", "", "web")) == ""


def test_text_that_only_looks_like_it_names_none():
    for text in ("", "kube-system", f"kube-system{STORE}", "kube-system 0b0e4a58", STORE):
        assert conditions.named_store(text) == ""
