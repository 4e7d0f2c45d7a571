"""What the default profile costs before a word is said, counted by a real server."""

from pathlib import Path

import msgspec

from navi.adapters.llm.openai_request import FORMS, render
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.sandbox.proof import ProvenSandbox
from navi.adapters.tools.code_exec import CodeExecTool
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.adapters.tools.web.process import WebAccess, WebProcesses
from navi.application.agent.compose_request import offered_tools
from navi.domain.agent.profile import DEFAULT_PROFILE
from navi.domain.context.prompt import PERSONA, ModelRequest, PromptMessage, system_text
from tests.adapters.tools.test_memory import Notebook
from tests.support.given_tools import GivenTools
from tests.support.llama_process import running_llama

MOST = 1_020  # of SmolLM2; with these the tokenizer and template of Qwen count 1,200


async def test_hello_costs_few_tokens(small_model: Path, tmp_path: Path) -> None:
    """SmolLM2 counts 1,018 tokens of words and schemas, without a template: its own knows no tools.

    Qwen 2.5 counts 1,200 in its template (2,393 with fewer tools before they were made lean).
    """
    profile = await FolderProfiles(tmp_path).get(DEFAULT_PROFILE)
    assert profile is not None
    web = WebAccess(processes=WebProcesses({}), allowed="", searxng=None)
    ports = ToolPorts(remembering=Notebook(), web=web)
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=tmp_path / "proof.json")
    code = GivenTools([CodeExecTool(sandbox)])  # as where the sandbox holds
    tools = Tools(ports, own_tools=tmp_path, environment={}, sources=(code,))
    request = ModelRequest(
        model="any",
        messages=(
            PromptMessage(role="system", content=system_text(PERSONA, profile.system_prompt)),
            PromptMessage(role="user", content="hello"),
        ),
        tools=offered_tools(tools, profile),
    )
    sent = msgspec.json.decode(render(request, FORMS["openai/2"]))
    words = [message["content"] for message in sent["messages"]]
    schemas = [msgspec.json.encode(tool).decode() for tool in sent["tools"]]

    async with running_llama(small_model) as llama:
        counted = await llama.post("/tokenize", {"content": "\n".join((*words, *schemas))})

    assert len(schemas) == 9
    assert len(counted["tokens"]) <= MOST
