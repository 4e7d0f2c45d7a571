"""Descriptions that programs read: OpenAPI, AsyncAPI, JSON Schema of the events."""
