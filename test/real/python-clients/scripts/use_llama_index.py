import json
import sys

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

url, model, embedder, question = sys.argv[1:]


class Place(BaseModel):
    """A place."""

    country: str
    inhabitants: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


settings = {
    "model": model,
    "api_base": f"{url}/v1",
    "api_key": "none",
    "is_chat_model": True,
    "context_window": 8192,
    "temperature": 0,
    "max_tokens": 60,
    "max_retries": 0,
}
llm = OpenAILike(is_function_calling_model=True, **settings)
schemas = OpenAILike(should_use_structured_outputs=True, **settings)
tool = FunctionTool.from_defaults(weather)
messages = [ChatMessage(role="user", content=question)]
called = llm.chat_with_tools([tool], user_msg=question, tool_required=True)
vectors = OpenAILikeEmbedding(model_name=embedder, api_base=f"{url}/v1", api_key="none")
print(
    json.dumps(
        {
            "chat": llm.chat(messages).message.content,
            "streamed": "".join(piece.delta or "" for piece in llm.stream_chat(messages)),
            "called": [
                [call.tool_name, sorted(call.tool_kwargs)]
                for call in llm.get_tool_calls_from_response(called, error_on_no_tool_call=False)
            ],
            "by_tool": type(llm.as_structured_llm(Place).chat(messages).raw).__name__,
            "by_schema": type(schemas.as_structured_llm(Place).chat(messages).raw).__name__,
            "completion": len(
                OpenAILike(**{**settings, "is_chat_model": False}).complete("One, two,").text
            )
            > 0,
            "vectors": [len(each) for each in vectors.get_text_embedding_batch(["rain", "a river"])],
        }
    )
)
