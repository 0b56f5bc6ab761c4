"""A pytest plugin: llama.cpp's server tests run against a svc node instead of llama-server.

ServerProcess.start() opens a proxy at the port of the test. The proxy places the model with the settings that
svc has (context, slots, chat template), supplies what llama-server takes from its command line (model, seed,
temperature, length), maps the paths that are the same route, and writes answers in llama-server's dialect, so
that a test reaches what it is about. The results go to $SUITE_RESULTS.
"""
import hashlib
import http.client
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
import utils

NODE = urlsplit(os.environ['SUITE_URL'])
TOKEN = os.environ['SUITE_TOKEN']
SVC = json.loads(os.environ['SUITE_SVC'])
# Routes that need the model.
LOADED = ('/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/messages/count_tokens',
          '/v1/responses', '/v1/embeddings', '/v1/tokenize', '/v1/detokenize')
GENERATES = ('/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses')
OWN_HEADERS = ('host', 'content-length', 'authorization', 'x-api-key', 'connection')
# llama-server has these routes without /v1 too.
SAME = ('/chat/completions', '/completions', '/responses', '/models', '/rerank')
SUBSTITUTES = {
    'ggml-org/test-model-stories260K': ('gguf', 'test/stories'),
    'bert-bge-small/ggml-model-f16.gguf': ('onnx', 'test/minilm'),
}
# Training context of the model; llama-server accepts more.
CONTEXT = 512
placed = {}
placing = threading.Lock()


def svc(*words):
    done = subprocess.run([*SVC, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f'svc {" ".join(words)}: {done.stdout}{done.stderr}')


def place(server, kind, model):
    """Places the model as the flags of llama-server say, unless it is placed so."""
    words = []
    if kind == 'gguf':
        slots = server.n_slots or 1
        words = ['--ctx', str(min(CONTEXT, (server.n_ctx or CONTEXT) // slots)), '--slots', str(slots)]
        template = server.chat_template_file
        if server.chat_template not in (None, 'chatml'):
            template = os.path.join(os.environ['SUITE_TMP'],
                                    hashlib.sha256(server.chat_template.encode()).hexdigest())
            with open(template, 'w') as file:
                file.write(server.chat_template)
        if template is not None:
            words += ['--chat-template', os.path.abspath(template)]
    if placed.get(model) == words:
        return
    if model in placed:
        del placed[model]
        svc('stop', model)
    svc('place', model, *words, '--wait=60')
    placed[model] = words


def dialect(answer, model):
    """An answer with what llama-server adds to OpenAI's format; its first delta has null as content."""
    kind = answer.get('object', '')
    if not kind.startswith(('chat.completion', 'text_completion')):
        return answer
    answer['id'] = ('chatcmpl-' if kind.startswith('chat') else 'cmpl-') + answer['id']
    answer['system_fingerprint'] = 'b0'
    answer['model'] = model
    for choice in answer['choices']:
        delta = choice.get('delta', {})
        if delta.get('role') == 'assistant' and delta.get('content') == '':
            delta['content'] = None
    return answer


def translated(line, model):
    """A line of an answer, or a whole one, in llama-server's dialect."""
    start = b'data: ' if line.startswith(b'data: {') else b''
    if not line.startswith((b'{', b'data: {')):
        return line
    answer = dialect(json.loads(line[len(start):]), model)
    return start + json.dumps(answer).encode() + (b'\n' if start else b'')


class Proxy(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def pass_on(self):
        server = self.server.of
        path = '/v1' + self.path if self.path.split('?')[0] in SAME else self.path
        sent = self.rfile.read(int(self.headers.get('content-length', 0)))
        try:
            body = json.loads(sent)
        except ValueError:
            body = None
        tokenize = path in ('/tokenize', '/detokenize')
        if isinstance(body, dict):
            body['model'] = self.server.model
            # Placement chooses the slot; the tests that set it are about other fields.
            body.pop('id_slot', None)
            if path in GENERATES:
                body.setdefault('temperature', server.temperature)
                # Anthropic's API has no seed, and the Responses API neither.
                if path in GENERATES[:2]:
                    body.setdefault('seed', server.seed)
                    if 'n_predict' not in body and 'max_completion_tokens' not in body:
                        body.setdefault('max_tokens', server.n_predict)
            if tokenize:
                path = '/v1' + path
                if 'content' in body:
                    body['prompt'] = body.pop('content')
                body['add_special_tokens'] = body.pop('add_special', False)
                if path == '/v1/detokenize':
                    del body['add_special_tokens']
            sent = json.dumps(body).encode()
        if path in LOADED:
            with placing:
                place(server, self.server.kind, self.server.model)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in OWN_HEADERS}
        authorization = self.headers.get('authorization') or ''
        key = self.headers.get('x-api-key') or authorization.removeprefix('Bearer ')
        if server.api_key is None or key == server.api_key:
            headers['authorization'] = f'Bearer {TOKEN}'
        elif key:
            headers['authorization'] = f'Bearer {key}'
        onward = http.client.HTTPConnection(NODE.hostname, NODE.port, timeout=120)
        onward.request(self.command, path, sent or None, headers)
        answer = onward.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ('transfer-encoding', 'connection', 'content-length'):
                self.send_header(name, value)
        # Without a length, the end of the connection ends the answer.
        self.send_header('connection', 'close')
        self.end_headers()
        self.close_connection = True
        streams = answer.getheader('content-type', '').startswith('text/event-stream')
        while data := answer.readline() if streams else answer.read():
            if path == '/v1/detokenize':
                data = data.replace(b'"prompt"', b'"content"')
            self.wfile.write(translated(data, server.model_alias))
        onward.close()

    do_GET = do_POST = do_DELETE = do_OPTIONS = do_PUT = pass_on


def start(self, timeout_seconds=0):
    kind, model = SUBSTITUTES.get(self.model_hf_file or self.model_hf_repo, (None, None))
    if kind is None:
        pytest.fail('needs a download' if self.model_hf_repo else 'is a router of llama-server')
    self.proxy = ThreadingHTTPServer(('127.0.0.1', 0), Proxy)
    self.server_port = self.proxy.server_port
    self.proxy.of = self
    self.proxy.kind, self.proxy.model = kind, model
    threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
    utils.server_instances.add(self)


def stop(self):
    utils.server_instances.discard(self)
    self.proxy.shutdown()
    self.proxy.server_close()


utils.ServerProcess.start = start
utils.ServerProcess.stop = stop
utils.ServerPreset.load_all = staticmethod(lambda: None)


def pytest_runtest_logreport(report):
    """Writes the outcome of a test, and the message and line of its failure."""
    if report.when == 'teardown' or (report.when == 'setup' and report.passed):
        return
    at = ''
    if report.failed and hasattr(report.longrepr, 'reprcrash'):
        lines = [line for each in report.longrepr.reprtraceback.reprentries
                 for line in str(each).splitlines() if line[:1] == '>']
        at = f'{report.longrepr.reprcrash.message}\n' + '\n'.join(lines) + report.capstdout[-1500:]
    elif report.failed:
        at = str(report.longrepr)
    with open(os.environ['SUITE_RESULTS'], 'a') as file:
        file.write(json.dumps({'test': report.nodeid, 'outcome': report.outcome, 'at': at}) + '\n')
