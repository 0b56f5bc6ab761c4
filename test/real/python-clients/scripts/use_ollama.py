import json
import sys

import ollama
from pydantic import BaseModel

url, model, embedder, question, token = sys.argv[1:]
client = ollama.Client(host=f"{url}/ollama", headers={"authorization": f"Bearer {token}"})
messages = [{"role": "user", "content": question}]
options = {"temperature": 0, "num_predict": 60}


class Place(BaseModel):
    country: str
    inhabitants: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


def refused(ask):
    try:
        ask()
        return None
    except ollama.ResponseError as error:
        return error.status_code


chat = client.chat(model, messages, options=options)
stream = list(client.chat(model, messages, options=options, stream=True))
structured = client.chat(model, messages, format=Place.model_json_schema(), options=options)
generated = client.generate(model, question, options=options)
vectors = client.embed(embedder, ["rain", "a river"])
long = client.embed(embedder, "A river is long. " * 500)
shown = client.show(model)
names = {each.model for each in client.list().models}
tools = client.chat(model, messages, tools=[weather], options=options)
with_result = client.chat(
    model,
    [
        *messages,
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Oslo"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "It rains in Oslo."},
    ],
    tools=[weather],
    options=options,
)
print(
    json.dumps(
        {
            "chat": chat.message.content,
            "streamed": "".join(piece.message.content for piece in stream),
            "usage": [chat.eval_count, stream[-1].eval_count],
            "structured": type(Place.model_validate_json(structured.message.content)).__name__,
            "generated": generated.response,
            "tools": [tools.done, with_result.done],
            "capabilities": shown.capabilities,
            "listed": [any(name.startswith(each) for name in names) for each in (model, embedder)],
            "running": any(each.model.startswith(model) for each in client.ps().models),
            "vectors": [len(each) for each in vectors.embeddings],
            "long": len(long.embeddings[0]),
            "unknown": refused(lambda: client.chat("acme/none", messages)),
            "not_truncated": refused(lambda: client.embed(embedder, "A river is long. " * 500, truncate=False)),
        }
    )
)
