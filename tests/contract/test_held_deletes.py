"""What the syncer says of a store, the command line understands."""

from syncer.safety import store_guard
from tenancy import conditions

STORE = "0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11"


def test_the_message_of_the_syncer_names_the_store_to_confirm():
    told = store_guard.sentence(
        "it is another store than the one that was synced before", STORE, "web"
    )
    assert conditions.named_store(told) == STORE
    assert "kubectl vc confirm-deletes web" in told


def test_the_message_about_a_missing_mark_says_what_is_missing_and_can_be_confirmed():
    seen = store_guard.Sight(uid=STORE, revision=9, epoch=0, epoch_revision=0)
    problem = store_guard.judge(store_guard.Record(uid=STORE, revision=5, epoch=2), seen)
    told = store_guard.sentence(problem, STORE, "web")
    assert conditions.named_store(told) == STORE
    assert "ConfigMap kube-system/virtual-cluster-store is missing" in told
    assert "kubectl vc confirm-deletes web" in told
    assert len(told) < 1024


def test_a_store_without_kube_system_cannot_be_confirmed():
    assert conditions.named_store(store_guard.sentence("it is empty", "", "web")) == ""


def test_text_that_only_looks_like_it_names_none():
    for text in ("", "kube-system", f"kube-system{STORE}", "kube-system 0b0e4a58", STORE):
        assert conditions.named_store(text) == ""
