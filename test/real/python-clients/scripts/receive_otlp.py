"""An OTLP receiver: prints its port, then each request decoded by OpenTelemetry's own protobuf classes."""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_base64(value):
    """OTLP writes ids as hex, where protobuf's JSON has base64."""
    if isinstance(value, list):
        return [with_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    for name, size in IDS.items():
        if value.get(name):
            raw = bytes.fromhex(value[name])
            if len(raw) != size:
                raise ValueError(f"{name}: {value[name]}")
            value[name] = base64.b64encode(raw).decode()
    return {name: with_base64(each) for name, each in value.items()}


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def decode(body, kind):
    request = ExportTraceServiceRequest()
    if kind == "application/x-protobuf":
        request.ParseFromString(body)
    else:
        json_format.ParseDict(with_base64(json.loads(body)), request)
    return [
        {
            "service": {each.key: value_of(each.value) for each in group.resource.attributes},
            "name": span.name,
            "trace": span.trace_id.hex(),
            "span": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "kind": Span.SpanKind.Name(span.kind),
            "status": Status.StatusCode.Name(span.status.code),
            "nanoseconds": span.end_time_unix_nano - span.start_time_unix_nano,
            "startSeconds": span.start_time_unix_nano // 10**9,
            "attributes": {each.key: value_of(each.value) for each in span.attributes},
        }
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers["content-length"] is not None:
            return self.rfile.read(int(self.headers["content-length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_POST(self):
        kind = self.headers["content-type"]
        body = self.body()
        said = {"path": self.path, "header": self.headers["x-key"]}
        try:
            said["spans"] = decode(body, kind)
        except Exception as error:
            said["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(said), flush=True)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
