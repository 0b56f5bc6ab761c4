import asyncio
import json
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

url, model, embedder, question = sys.argv[1:]
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


class Place(BaseModel):
    country: str
    inhabitants: int


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    cities.append(city)
    return f"It rains in {city}."


cities = []
settings = ModelSettings(temperature=0, max_tokens=60)
required = ModelSettings(temperature=0, max_tokens=60, tool_choice="required")


async def main():
    answers = {}
    for api, kind in {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}.items():
        llm = kind(model, openai_client=client)
        plain = await Runner.run(Agent("plain", model=llm, model_settings=settings), question)
        streaming = Runner.run_streamed(Agent("plain", model=llm, model_settings=settings), question)
        async for _ in streaming.stream_events():
            pass
        structured = await Runner.run(
            Agent("place", model=llm, output_type=Place, model_settings=settings), question
        )
        cities.clear()
        called = await Runner.run(
            Agent(
                "weather",
                model=llm,
                tools=[weather],
                model_settings=required,
                tool_use_behavior="stop_on_first_tool",
            ),
            question,
        )
        answers[api] = {
            "text": plain.final_output,
            "streamed": streaming.final_output,
            "structured": type(structured.final_output).__name__,
            "called": len(cities),
            "output": called.final_output,
        }
    print(json.dumps(answers))


asyncio.run(main())
