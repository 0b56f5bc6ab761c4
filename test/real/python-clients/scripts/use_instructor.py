import json
import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel

url, model, embedder, question = sys.argv[1:]


class Place(BaseModel):
    country: str
    inhabitants: int


answers = {}
for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=mode)
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "response_model": Place,
        "temperature": 0,
        "max_tokens": 80,
        "max_retries": 0,
    }
    partial = list(client.chat.completions.create_partial(**asked))
    answers[mode.name] = [
        type(client.chat.completions.create(**asked)).__name__,
        partial[-1].inhabitants is not None,
    ]
print(json.dumps(answers))
