import json
import sys

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel

url, model, embedder, question = sys.argv[1:]
llm = LLM(model=f"openai/{model}", base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=60)


class Place(BaseModel):
    country: str
    inhabitants: int


@tool("weather")
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


def work(**more):
    agent = Agent(role="Clerk", goal="Answer", backstory="Answers.", llm=llm, max_iter=3, tools=more.pop("tools", []))
    task = Task(description=question, expected_output="One sentence", agent=agent, **more)
    return Crew(agents=[agent], tasks=[task], tracing=False).kickoff()


streamed = LLM(
    model=f"openai/{model}", base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=60, stream=True
)
answers = {
    "chat": llm.call(question),
    "streamed": streamed.call(question),
    "structured": type(
        LLM(
            model=f"openai/{model}",
            base_url=f"{url}/v1",
            api_key="none",
            temperature=0,
            max_tokens=60,
            response_format=Place,
        ).call(question)
    ).__name__,
    "crew": len(work().raw) > 0,
    "with_tools": len(work(tools=[weather]).raw) > 0,
}
# Its boxes come from another thread.
print("\n" + json.dumps(answers))
