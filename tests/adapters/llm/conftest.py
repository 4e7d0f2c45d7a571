"""A scripted model server, and what is open on it, closed after each test."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from tests.support.model_server import ModelServer


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def ollama(server: ModelServer) -> AsyncGenerator[Ollama, None]:
    model = Ollama("OLLAMA_HOST", server.url, headers={}, chunk_timeout=600)
    async with aclosing(model):
        yield model


@pytest.fixture
async def openai(server: ModelServer) -> AsyncGenerator[OpenAI, None]:
    model = OpenAI(server.openai_url, api_key="sk-very-secret", chunk_timeout=60)
    async with aclosing(model):
        yield model
