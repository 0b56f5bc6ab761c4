"""The program `aider`, which asks, and offers to change a file."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

url, model, embedder, question = sys.argv[1:]
program = Path(sys.executable).with_name("aider")
home = tempfile.mkdtemp()
name = f"openai/{model}"
# JSON is also YAML.
settings = [{"name": name, "edit_format": "whole", "extra_params": {"max_tokens": 60, "temperature": 0}}]
Path(home, ".aider.model.settings.yml").write_text(json.dumps(settings))
metadata = {name: {"max_tokens": 8192, "max_input_tokens": 8192, "litellm_provider": "openai", "mode": "chat"}}
Path(home, ".aider.model.metadata.json").write_text(json.dumps(metadata))
Path(home, "hello.py").write_text("print('hello')\n")


def aider(*words):
    quiet = ["--no-git", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-pretty",
             "--no-show-release-notes", "--no-detect-urls", "--map-tokens", "0", "--yes-always"]
    done = subprocess.run(
        [program, "--model", name, "--openai-api-base", f"{url}/v1", "--openai-api-key", "none", *quiet, *words],
        capture_output=True,
        text=True,
        cwd=home,
    )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


asked = aider("--chat-mode", "ask", "--message", question, "--no-stream")
changed = aider("--message", "Print good bye.", "hello.py")
print(json.dumps({"asked": "Paris" in asked, "changed": "tokens" in changed.lower() and "received" in changed}))
