# Prints, for each case and client, the classes of the error that the client raises: one JSON list.
# clients.py URL KEY WRONG READER MODEL
import json
import os
import sys
import time
import urllib.request

# Nothing but the node is contacted.
os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'
os.environ['LITELLM_TELEMETRY'] = 'False'
os.environ['LANGSMITH_TRACING'] = 'false'
import litellm
import openai
from langchain_openai import ChatOpenAI

url, key, wrong, reader, model = sys.argv[1:]
base = url + '/v1'
litellm.suppress_debug_info = True


def ask(words):
    return [{'role': 'user', 'content': words}]


def by_openai(words, key=key, model=model, retries=0, timeout=120, stream=False, **more):
    client = openai.OpenAI(base_url=base, api_key=key, max_retries=retries, timeout=timeout)
    answer = client.chat.completions.create(model=model, messages=ask(words), stream=stream, **more)
    if not stream:
        return answer.choices[0].message.content
    return ''.join(chunk.choices[0].delta.content or '' for chunk in answer if chunk.choices)


def by_litellm(words, key=key, model=model, retries=0, timeout=120, stream=False, **more):
    answer = litellm.completion(model='openai/' + model, api_base=base, api_key=key, messages=ask(words),
                                stream=stream, max_retries=retries, timeout=timeout, **more)
    if not stream:
        return answer.choices[0].message.content
    return ''.join(chunk.choices[0].delta.content or '' for chunk in answer if chunk.choices)


def by_langchain(words, key=key, model=model, retries=0, timeout=120, stream=False, **more):
    chat = ChatOpenAI(model=model, base_url=base, api_key=key, max_retries=retries, timeout=timeout, **more)
    if not stream:
        return chat.invoke(words).content
    return ''.join(chunk.content for chunk in chat.stream(words))


def post(words, tokens):
    body = {'model': model, 'messages': ask(words), 'stream': True, 'max_tokens': tokens}
    request = urllib.request.Request(base + '/chat/completions', json.dumps(body).encode(), {
        'content-type': 'application/json', 'authorization': 'Bearer ' + key})
    answer = urllib.request.urlopen(request)
    while b'"content":"' not in answer.readline():
        pass
    return answer


def ready():
    """Waits until the model answers again."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return by_openai('Hi', max_tokens=1)
        except openai.APIError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.25)


def overloaded(call, retries):
    with post('Write a long story.', 60):
        return call(f'overload {retries}', retries=retries, max_tokens=4)


CASES = {
    'unknown model': lambda call: call('Hi', model='test/none'),
    'context': lambda call: call('word ' * 3000),
    'bad field': lambda call: call('Hi', temperature=9),
    'wrong key': lambda call: call('Hi', key=wrong),
    'no authority': lambda call: call('Hi', key=reader),
    'timeout': lambda call: call('Write a long story about a river.', timeout=1, max_tokens=900),
    'overload': lambda call: overloaded(call, 0),
    'overload, retried': lambda call: overloaded(call, 20),
    'killed': lambda call: call('Write a long story: kill.', stream=True, max_tokens=900),
}

results = []
for name, call in {'openai': by_openai, 'litellm': by_litellm, 'langchain': by_langchain}.items():
    for case, run in CASES.items():
        ready()
        result = {'client': name, 'case': case, 'raised': [], 'text': None}
        try:
            result['text'] = run(call)
        except Exception as error:
            result['raised'] = [f'{each.__module__.split(".")[0]}.{each.__name__}' for each in type(error).__mro__]
            result['message'] = str(error)[:400]
        results.append(result)
print(json.dumps(results))
