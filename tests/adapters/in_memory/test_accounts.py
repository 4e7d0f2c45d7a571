import pytest

from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.ports.accounts import Accounts
from tests.contracts.accounts import AccountsContract


class TestInMemoryAccounts(AccountsContract):
    @pytest.fixture
    def accounts(self) -> Accounts:
        return InMemoryAccounts()
