import json
import sys

import anthropic

url, model, embedder, question = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
messages = [{"role": "user", "content": question}]
bounds = {"model": model, "max_tokens": 60, "extra_body": {"temperature": 0}}
tool = {
    "name": "weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def call_of(**choice):
    answer = client.messages.create(messages=messages, tools=[tool], tool_choice=choice, **bounds)
    return [
        answer.stop_reason,
        [[block.name, sorted(block.input)] for block in answer.content if block.type == "tool_use"],
    ]


def refused(ask):
    try:
        ask()
        return None
    except anthropic.APIStatusError as error:
        return [type(error).__name__, error.status_code]


answer = client.messages.create(messages=messages, **bounds)
with client.messages.stream(messages=messages, **bounds) as stream:
    streamed = "".join(stream.text_stream)
    final = stream.get_final_message()
with client.messages.stream(
    messages=messages, tools=[tool], tool_choice={"type": "any"}, **bounds
) as stream:
    streamed_call = stream.get_final_message()
with_result = client.messages.create(
    messages=[
        *messages,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "It rains in Oslo."}],
        },
    ],
    tools=[tool],
    **bounds,
)
print(
    json.dumps(
        {
            "chat": answer.content[0].text,
            "streamed": streamed,
            "usage": [answer.usage.output_tokens, final.usage.output_tokens],
            "any": call_of(type="any"),
            "named": call_of(type="tool", name="weather"),
            "streamed_call": [[b.type, getattr(b, "name", None)] for b in streamed_call.content],
            "with_result": with_result.content[0].type,
            "counted": client.messages.count_tokens(model=model, messages=messages).input_tokens
            == answer.usage.input_tokens + answer.usage.cache_read_input_tokens,
            "listed": model in {each.id for each in client.models.list()},
            "unknown": refused(
                lambda: client.messages.create(messages=messages, max_tokens=9, model="acme/none")
            ),
            "too_long": refused(
                lambda: client.messages.create(
                    messages=[{"role": "user", "content": "word " * 20000}], model=model, max_tokens=9
                )
            ),
        }
    )
)
