"""The program `llm`, with a model of its extra-openai-models.yaml."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

url, model, embedder, question = sys.argv[1:]
program = Path(sys.executable).with_name("llm")
home = tempfile.mkdtemp()
entry = {"model_id": "smol", "model_name": model, "api_base": f"{url}/v1", "supports_tools": True, "supports_schema": True}
# JSON is also YAML.
Path(home, "extra-openai-models.yaml").write_text(json.dumps([entry]))
weather = "def weather(city: str) -> str:\n    'The weather of a city.'\n    return 'It rains.'\n"


def llm(*words):
    bounds = ["--key", "none", "-m", "smol", "-o", "temperature", "0", "-o", "max_tokens", "60"]
    done = subprocess.run(
        [program, *words, *bounds], capture_output=True, text=True, env={**os.environ, "LLM_USER_PATH": home}
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout.strip()


print(
    json.dumps(
        {
            "chat": llm("prompt", "--no-stream", question),
            "streamed": llm("prompt", question),
            "structured": sorted(json.loads(llm("prompt", "--schema", "country, inhabitants int", question))),
            "offered": len(llm("prompt", "--functions", weather, question)) > 0,
        }
    )
)
