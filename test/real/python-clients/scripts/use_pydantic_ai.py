import asyncio
import json
import sys

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

url, model, embedder, question = sys.argv[1:]
settings = {"temperature": 0, "max_tokens": 60}


class Place(BaseModel):
    country: str
    inhabitants: int


openai = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
models = {
    "chat": OpenAIChatModel(model, provider=openai),
    "responses": OpenAIResponsesModel(model, provider=openai),
    "ollama": OpenAIChatModel(model, provider=OllamaProvider(base_url=f"{url}/ollama/v1")),
    "anthropic": AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key="none")),
}


async def main():
    answers = {}
    for name, each in models.items():
        agent = Agent(each, model_settings=settings)
        answer = await agent.run(question)
        async with agent.run_stream(question) as stream:
            streamed = await stream.get_output()
        by_tool = await Agent(each, output_type=ToolOutput(Place), model_settings=settings).run(question)
        answers[name] = {
            "text": answer.output,
            "streamed": streamed,
            "tool": type(by_tool.output).__name__,
        }
        if name in ("chat", "responses"):
            native = await Agent(each, output_type=NativeOutput(Place), model_settings=settings).run(question)
            answers[name]["native"] = type(native.output).__name__
    print(json.dumps(answers))


asyncio.run(main())
