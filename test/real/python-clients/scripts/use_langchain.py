import json
import sys

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

url, model, embedder, question, api = sys.argv[1:]


class Place(BaseModel):
    """A place."""

    country: str
    inhabitants: int


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


if api == "openai":
    chat = ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=60, max_retries=0)
    embeddings = OpenAIEmbeddings(
        model=embedder, base_url=f"{url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    methods = ["function_calling", "json_schema"]
    bound = chat.bind_tools([weather], tool_choice="weather")
else:
    chat = ChatOllama(model=model, base_url=f"{url}/ollama", temperature=0, num_predict=60)
    embeddings = OllamaEmbeddings(model=embedder, base_url=f"{url}/ollama")
    methods = ["json_schema"]
    bound = chat.bind_tools([weather])


def structured(method):
    return type(chat.with_structured_output(Place, method=method).invoke(question)).__name__


called = bound.invoke(question)
given = bound.invoke(
    [
        HumanMessage(question),
        AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Oslo"}, "id": "a"}]),
        ToolMessage("It rains in Oslo.", tool_call_id="a"),
    ]
)
answers = {
    "chat": chat.invoke(question).content,
    "streamed": "".join(piece.content for piece in chat.stream(question)),
    "structured": {method: structured(method) for method in methods},
    "called": [[call["name"], sorted(call["args"])] for call in called.tool_calls],
    "with_result": type(given).__name__,
    "vectors": [len(each) for each in embeddings.embed_documents(["rain", "a river"])],
    "batch": len(chat.batch([question, question])),
}
if api == "openai":
    whole = {"model": model, "base_url": f"{url}/v1", "api_key": "none", "temperature": 0, "max_tokens": 60}
    answers["responses"] = ChatOpenAI(use_responses_api=True, **whole).invoke(question).text
    answers["completion"] = OpenAI(**whole).invoke("One, two,")
    try:
        chat.invoke("word " * 20000)
    except Exception as error:
        answers["too_long"] = type(error).__name__
print(json.dumps(answers))
