"""The real model server as the tests start it."""

from pathlib import Path

from tests.support.llama_process import held_copy, running_llama, starting_llama


async def test_it_serves_on_its_port_again_after_a_kill(small_model: Path) -> None:
    async with running_llama(small_model, window=512, slots=2) as llama:
        port, [model] = llama.options.port, (await llama.get("/v1/models"))["data"]
        slots = [slot["n_ctx"] for slot in await llama.get("/slots")]

        await llama.kill()
        away = await llama.status()
        await llama.start()
        await llama.ready()

        assert (model["id"], slots, away) == ("smollm2", [512, 512], None)
        assert (llama.options.port, await llama.status()) == (port, 200)


async def test_it_loads_for_as_long_as_its_model_is_held(small_model: Path, tmp_path: Path) -> None:
    with held_copy(small_model, tmp_path) as (model, let_go):
        async with starting_llama(model) as llama:
            said = [await llama.status() for _ in range(3)]
            props = (await llama.get("/props"))["error"]
            let_go()
            await llama.ready()

            assert said == [503] * 3
            assert props == {
                "message": "Loading model",
                "type": "unavailable_error",
                "code": 503,
            }
            assert await llama.taken() == 0
