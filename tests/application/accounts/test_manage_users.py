"""Commands on users name them by id or by name."""

from datetime import UTC, datetime

import pytest

from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.application.accounts.manage_users import user_called
from navi.domain.accounts.accounts import User
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner

AT = datetime(2026, 11, 20, tzinfo=UTC)
ID = Owner("01970000-0000-7000-8000-000000000000")
OTHER = Owner("01970000-0000-7000-8000-000000000001")
THIRD = Owner("01970000-0000-7000-8000-000000000002")


def user(user_id: Owner, name: str) -> User:
    return User(id=user_id, name=name, role="user", created_at=AT)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada", LOCAL_OWNER),
        ("local", LOCAL_OWNER),  # not who is named so
        (ID, ID),
        (OTHER, OTHER),
        ("bob", ID),
        ("01970000-0000-7000-8000-00000000000f", THIRD),  # nobody's id, and somebody's name
        ("eve", None),
    ],
)
async def test_an_id_is_that_users_whoever_is_named_like_it(text: str, found: Owner | None) -> None:
    accounts = InMemoryAccounts()
    for one in (
        user(LOCAL_OWNER, "ada"),
        user(ID, "bob"),
        user(OTHER, "local"),
        user(THIRD, "01970000-0000-7000-8000-00000000000f"),
    ):
        await accounts.add_user(one, password=None)

    called = await user_called(accounts, text)

    assert (None if called is None else called.id) == found
