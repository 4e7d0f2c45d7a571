"""One loop for the tests of a module, which is the one that its servers are spoken to in."""

from pathlib import Path

import pytest
import pytest_asyncio

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a module in one loop."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
