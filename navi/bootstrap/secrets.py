"""Which secrets of the environment and of the servers in use are masked."""

from navi.adapters.embedded.servers import Addresses
from navi.adapters.llm.model_settings import ModelSettings
from navi.domain.log.secrets import Secrets, password_in
from navi.settings import Settings


def secrets_of(settings: Settings, addresses: Addresses, models: ModelSettings) -> Secrets:
    """The secrets to mask: those of the environment and of the servers in use."""
    urls = {"NATS_URL": addresses.nats_url or "", "DATABASE_URL": addresses.database_url or ""}
    return Secrets(
        {
            **_in_files(models),
            **{name: password_in(url) or "" for name, url in urls.items()},
            **settings.secrets,
        }
    )


def _in_files(models: ModelSettings) -> dict[str, str]:
    """The secrets in the lists of servers: headers ("Bearer KEY"; the key alone), keys, passwords."""
    ollamas, openais = models.ollama_backends, models.openai_backends
    found = {
        "OLLAMA_BACKENDS_FILE": [h for entry in ollamas for h in entry.headers.values()],
        "OPENAI_BACKENDS_FILE": [h for entry in openais for h in entry.headers.values()]
        + [entry.api_key or "" for entry in openais],
    }
    found["OLLAMA_BACKENDS_FILE"] += [password_in(entry.url) or "" for entry in ollamas]
    found["OPENAI_BACKENDS_FILE"] += [password_in(entry.url) or "" for entry in openais]
    return {
        f"{name} {number}": value.split()[-1]
        for name, values in found.items()
        for number, value in enumerate(values)
        if value.strip()
    }
