"""navi: an agent service whose every event is kept, published and replayed."""

__version__ = "0.1.0"
