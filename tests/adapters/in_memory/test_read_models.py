import pytest

from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.ports.read_model_admin import ReadModelBackend
from tests.contracts.read_models import ReadModelsContract


class TestInMemoryReadModels(ReadModelsContract):
    @pytest.fixture
    def read_models(self) -> ReadModelBackend:
        return InMemoryReadModels()
