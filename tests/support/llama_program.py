"""llama.cpp's own server as a process: on the loopback, on one thread, until its standard input ends.

``python -m tests.support.llama_program OPTIONS``, which are `LlamaOptions` as JSON. While the model is
loaded it answers 503 already.
"""

import importlib
import os
import sys
from typing import Any

import msgspec

HOST = "127.0.0.1"
NAME = "smollm2"  # of the model, as clients see it
SEED = 1


class LlamaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is started with.

    Attributes:
        model: path of a GGUF file.
        window: tokens of one slot.
        slots: requests that are answered side by side.
        template: the chat template in Jinja; empty for the model's own.
        embeds: gives embeddings instead of answers.
    """

    model: str
    port: int
    window: int = 2048
    slots: int = 1
    template: str = ""
    embeds: bool = False


def serve(options: LlamaOptions) -> None:
    """Load the model and serve it until standard input ends."""
    llama: Any = importlib.import_module("xllamacpp")  # which has no types
    parameters = llama.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {NAME}
    parameters.hostnames = [HOST]
    parameters.port = options.port
    parameters.reuse_port = True  # whoever started this keeps it
    parameters.n_ctx = options.window * options.slots
    parameters.n_parallel = options.slots
    parameters.sampling.seed = SEED
    parameters.chat_template = options.template
    parameters.embedding = options.embeds
    if options.embeds:
        parameters.pooling_type = llama.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = 1
    parameters.endpoint_slots = parameters.endpoint_props = True
    server = llama.Server(parameters)
    sys.stdin.buffer.read()
    del server


if __name__ == "__main__":
    serve(msgspec.json.decode(sys.argv[1], type=LlamaOptions))
    os._exit(0)
