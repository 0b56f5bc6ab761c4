import json
import sys

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent

url, model, embedder, question = sys.argv[1:]
chat = ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=60, max_retries=0)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


agent = create_react_agent(chat, [weather])
offered = agent.invoke({"messages": [("user", question)]}, {"recursion_limit": 5})
steps = [mode for mode, _ in agent.stream({"messages": [("user", question)]}, stream_mode=["messages", "values"])]

graph = StateGraph(MessagesState)
graph.add_node("ask", lambda state: {"messages": [chat.bind_tools([weather], tool_choice="any").invoke(state["messages"])]})
graph.add_node("tools", ToolNode([weather]))
graph.add_node("say", lambda state: {"messages": [chat.invoke(state["messages"])]})
graph.add_edge(START, "ask")
graph.add_edge("ask", "tools")
graph.add_edge("tools", "say")
graph.add_edge("say", END)
called = graph.compile().invoke({"messages": [("user", question)]})
print(
    json.dumps(
        {
            "offered": offered["messages"][-1].content,
            "streamed": steps.count("messages") > 1,
            "results": [m.content.startswith("It rains in ") for m in called["messages"] if isinstance(m, ToolMessage)],
            "said": called["messages"][-1].type,
        }
    )
)
