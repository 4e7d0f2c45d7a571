"""The types of the client are those of the schema."""

from tests.client.event_types import MODULE, module


def test_the_types_of_events_are_made_from_the_schema() -> None:
    assert MODULE.read_text() == module(), "run python -m tests.client.event_types"
