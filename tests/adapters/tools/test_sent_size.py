"""What the built-in tools cost before a word is said: characters of the JSON that is sent."""

from pathlib import Path

import msgspec
import pytest

from navi.adapters.sandbox.proof import ProvenSandbox
from navi.adapters.tools.code_exec import CodeExecTool
from navi.adapters.tools.ssh.connections import Connections
from navi.adapters.tools.ssh.delays import SshDelays
from navi.adapters.tools.ssh.hosts import SshHost
from navi.adapters.tools.ssh.tool import SshTool
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.adapters.tools.web.process import WebAccess, WebProcesses
from navi.domain.context.prompt import ToolSchema
from tests.adapters.tools.test_memory import Notebook

MOST = {
    "filesystem": 470,
    "view_image": 150,
    "todo": 560,
    "scratchpad": 250,
    "spawn_agent": 340,
    "switch_profile": 220,
    "memory": 350,
    "web_fetch": 190,
    "web_search": 220,
    "code_exec": 330,
    "ssh": 290,  # with one host; each further one is a word
}


@pytest.fixture
def sent(tmp_path: Path) -> dict[str, int]:
    """The size of each tool, by its name."""
    web = WebAccess(processes=WebProcesses({}), allowed="", searxng="http://searx.example")
    ports = ToolPorts(remembering=Notebook(), web=web)
    tools = Tools(ports, own_tools=tmp_path, environment={})
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=tmp_path / "proof.json")
    web_host = SshHost(
        name="web", host="", port=22, user="", key_file=tmp_path, known_hosts=tmp_path
    )
    ssh = SshTool((web_host,), Connections(_nobody_deletes, SshDelays()))
    shown = (tool.description for tool in (*tools.all(), CodeExecTool(sandbox), ssh))
    schemas = (
        ToolSchema(name=d.name, description=d.description, parameters=d.parameters) for d in shown
    )
    return {schema.name: len(msgspec.json.encode(schema)) for schema in schemas}


async def _nobody_deletes(session_id: object) -> None:
    """Never asked: nothing is run."""


def test_every_built_in_tool_has_a_bound(sent: dict[str, int]) -> None:
    assert sent.keys() == MOST.keys()


@pytest.mark.parametrize("name", MOST)
def test_a_tool_is_not_larger_than_it_has_to_be(name: str, sent: dict[str, int]) -> None:
    assert sent[name] <= MOST[name]
