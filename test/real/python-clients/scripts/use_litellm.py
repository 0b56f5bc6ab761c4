"""A client of LiteLLM's proxy, which has one model for each provider that can reach svc."""

import json
import sys

import openai
from openai import OpenAI

url, question, key, *names = sys.argv[1:]
client = OpenAI(base_url=url, api_key=key, max_retries=0)
messages = [{"role": "user", "content": question}]
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
schema = {**parameters, "additionalProperties": False}
form = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}}


def refused(ask):
    try:
        ask()
        return None
    except openai.APIStatusError as error:
        return [error.status_code, error.body.get("type"), "ContextWindowExceeded" in str(error)]


def ask(model):
    bounds = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 60}
    chat = client.chat.completions.create(**bounds)
    pieces = list(client.chat.completions.create(stream=True, **bounds))
    required = client.chat.completions.create(tools=[tool], tool_choice="required", **bounds)
    calls = required.choices[0].message.tool_calls or []
    structured = client.chat.completions.create(response_format=form, **bounds)
    return {
        "chat": chat.choices[0].message.content,
        "tokens": chat.usage.completion_tokens,
        "streamed": "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices),
        "called": [[call.function.name, sorted(json.loads(call.function.arguments))] for call in calls],
        "structured": sorted(json.loads(structured.choices[0].message.content)),
        "too_long": refused(
            lambda: client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "word " * 20000}]
            )
        ),
    }


answers = {}
for name in names:
    try:
        answers[name] = ask(name)
    except openai.APIError as error:
        answers[name] = f"{type(error).__name__}: {error}"
for name in ("embed-openai", "embed-hosted_vllm", "embed-ollama"):
    data = client.embeddings.create(model=name, input=["rain", "a river"], encoding_format="float").data
    answers[name] = [len(each.embedding) for each in data]
sound = client.audio.speech.create(model="speech", voice="alloy", input="Hello there.", response_format="wav").content
answers["speech"] = [sound[:4].decode(), len(sound) > 10000]
print(json.dumps(answers))
