"""`docs/profiles.md` says of every key of a profile what the code does."""

from tests.domain.profile_keys import BESIDE_EXAMPLE, PAGE, beside_example, page_with, table


def test_the_table_of_keys_is_made_from_the_code() -> None:
    assert PAGE.read_text() == page_with(table()), "run python -m tests.domain.profile_keys"
    assert BESIDE_EXAMPLE.read_text() == beside_example(table())
