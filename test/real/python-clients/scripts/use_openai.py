import json
import sys

import openai
from openai import OpenAI
from pydantic import BaseModel

url, model, embedder, question = sys.argv[1:]
client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
messages = [{"role": "user", "content": question}]
bounds = {"model": model, "temperature": 0, "max_tokens": 60}
tool = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Place(BaseModel):
    country: str
    inhabitants: int


def call_of(choice):
    answer = client.chat.completions.create(messages=messages, tools=[tool], tool_choice=choice, **bounds)
    calls = answer.choices[0].message.tool_calls or []
    return [[call.function.name, sorted(json.loads(call.function.arguments))] for call in calls]


def streamed_call():
    name, arguments = "", ""
    for chunk in client.chat.completions.create(
        messages=messages, tools=[tool], tool_choice="required", stream=True, **bounds
    ):
        for choice in chunk.choices:
            for call in choice.delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    return [name, sorted(json.loads(arguments))]


def refused(ask):
    try:
        ask()
        return None
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code]


chat = client.chat.completions.create(messages=messages, **bounds)
stream = client.chat.completions.create(
    messages=messages, stream=True, stream_options={"include_usage": True}, **bounds
)
pieces = list(stream)
with_result = client.chat.completions.create(
    messages=[
        *messages,
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "It rains in Oslo."},
    ],
    tools=[tool],
    tool_choice="none",
    **bounds,
)
parsed = client.chat.completions.parse(messages=messages, response_format=Place, **bounds)
parsed_tool = client.chat.completions.parse(
    messages=messages, tools=[openai.pydantic_function_tool(Place)], tool_choice="required", **bounds
)
asked = {"model": model, "input": question, "temperature": 0, "max_output_tokens": 60}
response = client.responses.create(**asked)
with client.responses.stream(**asked) as events:
    for _ in events:
        pass
    streamed_response = events.get_final_response()
vectors = client.embeddings.create(model=embedder, input=["rain", "a river"])
with client.audio.speech.with_streaming_response.create(
    model="tts-1", voice="alloy", input="Hello there.", response_format="wav"
) as speech:
    sound = b"".join(speech.iter_bytes())
print(
    json.dumps(
        {
            "chat": chat.choices[0].message.content,
            "streamed": "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices),
            "usage": [chat.usage.completion_tokens, pieces[-1].usage.completion_tokens],
            "required": call_of("required"),
            "named": call_of({"type": "function", "function": {"name": "weather"}}),
            "streamed_call": streamed_call(),
            "with_result": with_result.choices[0].message.content,
            "parsed": type(parsed.choices[0].message.parsed).__name__,
            "parsed_call": type(
                parsed_tool.choices[0].message.tool_calls[0].function.parsed_arguments
            ).__name__,
            "responses": response.output_text,
            "streamed_response": streamed_response.output_text,
            "responses_parsed": type(
                client.responses.parse(**asked, text_format=Place).output_parsed
            ).__name__,
            "completion": client.completions.create(prompt="One, two,", **bounds).choices[0].text,
            "vectors": [len(each.embedding) for each in vectors.data],
            "sound": sound[:4].decode() if len(sound) > 10000 else len(sound),
            "listed": {model, embedder} <= {each.id for each in client.models.list()},
            "retrieved": client.models.retrieve(model).id,
            "unknown": refused(
                lambda: client.chat.completions.create(model="acme/none", messages=messages)
            ),
            "wrong_task": refused(
                lambda: client.chat.completions.create(model=embedder, messages=messages)
            ),
            "too_long": refused(
                lambda: client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": "word " * 20000}]
                )
            ),
        }
    )
)
