"""`kubectl vc doctor`: its table, and the error about the first broken link."""

import pytest

from kubectl_vc.installation import doctor
from kubectl_vc.installation.installation_checks import INSTALLATION_CHECKS
from kubectl_vc.output.cli_errors import CliError
from tests.support.kubectl_vc.installation_faults import check, named
from tests.support.kubectl_vc.object_faults import lease


def test_nothing_readable_is_a_failure():
    nothing = {each: None for check in INSTALLATION_CHECKS for each in check.needs}
    with pytest.raises(CliError, match="nothing was checked"):
        doctor.raise_for_broken_link(check(**nothing))


def test_table_and_error_name_the_broken_link():
    found = check(leases=[lease(300) | named(name) for name in ("vc-manager", "vc-syncer")])
    assert doctor.build_table(found).splitlines()[0].split() == ["CHECK", "RESULT", "MESSAGE"]
    with pytest.raises(CliError, match=r"^manager-lease: .* Next: kubectl -n vc-manager logs"):
        doctor.raise_for_broken_link(found)
