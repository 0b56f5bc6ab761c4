"""The calls of clients whose requests recorded.test.ts records: recorded.py CLIENT URL MODEL.

Prints the version of the client. A call that the client does not understand ends the program.
"""
import importlib.metadata
import sys

from pydantic import BaseModel

client, url, model = sys.argv[1:]
HI = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
PARAMETERS = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": PARAMETERS}}


class City(BaseModel):
    city: str


def with_result(message):
    """The turn after a tool call."""
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "2"}
    return [*HI, message.model_dump(exclude_none=True), result]


def openai():
    from openai import OpenAI

    api = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    asked = {"model": model, "messages": HI}
    chat = api.chat.completions
    assert chat.create(**asked, temperature=0.5, max_tokens=50, stop=["\n\n"]).choices[0].message.content
    with chat.stream(**asked, stream_options={"include_usage": True}) as stream:
        assert stream.get_final_completion().usage.total_tokens
    called = chat.create(**asked, tools=[TOOL], tool_choice="auto").choices[0].message
    assert called.tool_calls[0].function.name == "f"
    assert chat.create(model=model, messages=with_result(called), tools=[TOOL]).choices
    assert chat.parse(**asked, response_format=City).choices[0].message.parsed.city
    assert chat.create(**asked, logprobs=True, top_logprobs=2).choices
    assert api.completions.create(model=model, prompt="Hi", max_tokens=5).choices[0].text
    assert len(api.embeddings.create(model=model, input=["a", "b"]).data) == 2
    assert api.responses.create(model=model, input="Hi", instructions="Be short.").output_text
    tool = {"type": "function", "name": "f", "parameters": PARAMETERS, "strict": True}
    with api.responses.stream(model=model, input=[HI[1]], tools=[tool]) as stream:
        assert stream.get_final_response().output
    assert api.responses.parse(model=model, input="Hi", text_format=City).output_parsed.city


def anthropic():
    from anthropic import Anthropic

    api = Anthropic(base_url=url, api_key="none", max_retries=0)
    asked = {"model": model, "max_tokens": 50, "system": "Be short.", "messages": HI[1:]}
    tools = [{"name": "f", "description": "Does f.", "input_schema": PARAMETERS}]
    assert api.messages.create(**asked, stop_sequences=["##"]).content[0].text
    with api.messages.stream(**asked) as stream:
        assert stream.get_final_text()
    called = api.messages.create(**asked, tools=tools, tool_choice={"type": "auto"})
    use = next(block for block in called.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "2"}
    turns = [*asked["messages"], {"role": "assistant", "content": called.content},
             {"role": "user", "content": [result]}]
    with api.messages.stream(**{**asked, "messages": turns}, tools=tools) as stream:
        assert stream.get_final_message().content
    assert api.messages.count_tokens(model=model, messages=HI[1:]).input_tokens >= 0


def ollama():
    from ollama import Client

    api = Client(host=f"{url}/ollama")
    assert api.show(model).capabilities
    assert api.chat(model, HI).message.content
    assert "".join(part.message.content for part in api.chat(model, HI, stream=True, options={"temperature": 0}))
    assert api.chat(model, HI, tools=[TOOL]).message.tool_calls
    assert City.model_validate_json(api.chat(model, HI, format=City.model_json_schema()).message.content)
    assert "".join(part.response for part in api.generate(model, "Hi", stream=True, keep_alive="5m"))
    assert len(api.embed(model, ["a", "b"]).embeddings) == 2
    assert api.embeddings(model, "a").embedding


def litellm():
    import litellm as api

    api.telemetry = False
    key = {"api_key": "none", "num_retries": 0}
    providers = {"openai": f"{url}/v1", "ollama_chat": f"{url}/ollama", "ollama": f"{url}/ollama", "anthropic": url}
    for name, base in providers.items():
        asked = {"model": f"{name}/{model}", "messages": HI, "api_base": base, "max_tokens": 50, **key}
        assert api.completion(**asked).choices[0].message.content
        assert [part for part in api.completion(**asked, stream=True)]
        if name != "ollama":
            assert api.completion(**asked, tools=[TOOL]).choices[0].message.tool_calls
    for name in ("openai", "ollama"):
        base = providers[name]
        assert api.embedding(model=f"{name}/{model}", input=["a", "b"], api_base=base, **key).data
    assert api.responses(model=f"openai/{model}", input="Hi", api_base=providers["openai"], **key).output


{"openai": openai, "anthropic": anthropic, "ollama": ollama, "litellm": litellm}[client]()
print(importlib.metadata.version(client))
