"""How many processes ``auto`` means."""

from pathlib import Path

from navi.adapters.processes.cores import usable_cores


def test_a_container_that_may_use_half_a_core_counts_as_one(tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    cores = usable_cores(tmp_path / "none")

    limit.write_text("50000 100000\n")
    half = usable_cores(limit)
    limit.write_text("max 100000\n")

    assert (half, usable_cores(limit)) == (1, cores)
