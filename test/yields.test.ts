/**
 * Lists what each route gives or changes besides its answer, so that a new route must declare its own.
 * test/node/closure.test.ts calls the routes that give credentials.
 */
import t from 'tap'
import { routesOf } from '../kernel/plugins/registry.js'
import { kernelManifest } from '../kernel/plugins/kernel-manifest.js'
import { bundled } from '../plugins/index.js'

const lines = (text: string): string[] => text.split('\n').map((line) => line.trim()).filter(Boolean)

/** Routes by what they give or change; closure.test.ts tries the first four kinds. */
const places: Readonly<Record<string, string[]>> = {
  'a credential, or a part of the way to one': lines(`
    POST /v1/tokens
    POST /v1/tokens/:id/rotate
    POST /v1/devices/pairing
    POST /v1/devices/pairing/confirm
    POST /v1/devices/pair
    POST /v1/devices/sign-in
    POST /v1/devices/sign-in/token
    POST /v1/devices/pair/:attempt
    GET /v1/devices/pair/:attempt
    POST /v1/devices/session
    POST /v1/realtime/client_secrets
    POST /cluster/join-tokens`),
  'a setting': ['PUT /config'],
  'a plugin, on or off': ['POST /v1/plugins/:name'],
  'money to spend': ['POST /v1/approvals/:id', 'PUT /v1/approvals/budgets/:caller'],
  'the end of something': lines(`
    DELETE /v1/tokens/:id
    DELETE /v1/devices/:id
    DELETE /v1/devices/self
    DELETE /v1/devices/pairing
    POST /v1/devices/pairing/refuse
    POST /v1/devices/pair/:attempt/refuse
    DELETE /cluster/join-tokens/:id
    DELETE /cluster/members/:id
    DELETE /mcp
    POST /v1/cancel/:command_id
    POST /v1/capabilities/stream/cancel`),
  'work in the caller\'s name': lines(`
    POST /mcp
    POST /v1/steward/ask`),
  'the same node, with the settings of its file': ['POST /admin/restart'],
  'an answer of a model': lines(`
    POST /ollama/api/chat
    POST /ollama/api/embed
    POST /ollama/api/embeddings
    POST /ollama/api/generate
    POST /runners/donors
    POST /runners/gangs
    POST /runners/tasks
    POST /upstreams/tasks
    POST /v1/audio/speech
    POST /v1/audio/transcriptions
    POST /v1/audio/translations
    GET /v1/realtime
    POST /v1/capabilities/call
    GET /v1/capabilities/session
    POST /v1/capabilities/stream
    POST /v1/chat/completions
    POST /v1/completions
    POST /v1/detokenize
    POST /v1/embeddings
    POST /v1/rerank
    POST /v1/messages
    POST /v1/messages/count_tokens
    POST /v1/responses
    POST /v1/responses/input_tokens
    POST /v1/tokenize`),
  'a model, its copies and instances, or a trace': lines(`
    POST /instance
    DELETE /instance/:instance_id
    POST /models/add
    PATCH /models/:model_id/policy
    DELETE /models/custom/:model_id
    PUT /nodes/:node/drain
    DELETE /nodes/:node/drain
    DELETE /ollama/api/delete
    POST /ollama/api/pull
    POST /place_instance
    POST /unload
    DELETE /store/models/:model_id
    POST /store/models/:model_id/download
    DELETE /store/models/:model_id/download
    POST /store/models/:model_id/download/pause
    POST /store/models/:model_id/stage
    POST /store/purge-staging
    POST /v1/traces/delete
    PUT /v1/tracing`),
  'nothing: it reads': lines(`
    GET /
    GET /cluster/join-tokens
    GET /cluster/members
    GET /cluster/probe
    POST /cluster/touch
    GET /config
    GET /events
    GET /health
    GET /healthz
    GET /instance/:instance_id
    GET /instance/await
    GET /instance/placement
    GET /instance/previews
    GET /metrics
    GET /models
    GET /models/:model_id/availability
    GET /models/:model_id/card
    GET /models/copies
    GET /models/rest
    GET /node/identity
    GET /node_id
    GET /ollama
    GET /api/v0/models
    GET /running
    GET /ollama/api/ps
    POST /ollama/api/show
    GET /ollama/api/tags
    GET /ollama/api/version
    GET /openapi.json
    GET /page/:name
    GET /readyz
    GET /runners/donors/:feed_id
    GET /state
    GET /state/sync
    GET /store/downloads
    GET /store/health
    GET /store/models/:model_id/download/plan
    GET /store/models/:model_id/download/status
    GET /store/models/:model_id/files/*
    GET /store/models/:model_id/manifest
    GET /store/models/:model_id/room
    GET /store/registry
    GET /store/search
    GET /store/storage
    GET /v1/approvals
    GET /v1/audio/models
    GET /v1/audio/voices
    GET /v1/audit
    GET /v1/audit/export
    GET /v1/audit/verify
    GET /v1/capabilities
    GET /v1/devices
    GET /v1/devices/:id
    GET /v1/devices/pairing
    GET /v1/devices/self
    GET /v1/diagnostics/cluster
    GET /v1/diagnostics/node
    POST /v1/diagnostics/node/capture
    GET /v1/diagnostics/telemetry
    GET /v1/findings
    GET /v1/logs
    GET /v1/logs/cluster
    GET /v1/models
    GET /v1/models/:model_id
    GET /v1/plugins
    POST /v1/realtime/calls
    POST /v1/realtime/sessions
    GET /v1/relay
    GET /v1/relay/routes
    GET /v1/steward
    GET /v1/tokens
    GET /v1/traces
    GET /v1/traces/:id
    GET /v1/traces/:id/raw
    GET /v1/traces/:id/stats
    GET /v1/traces/cluster
    GET /v1/traces/cluster/:id
    GET /v1/traces/cluster/:id/raw
    GET /v1/traces/cluster/:id/stats
    GET /v1/tracing
    GET /v1/whoami
    GET /v1/usage
    GET /v1/wyoming`)
}

t.test('every route is listed by its yields', (t) => {
  const declared = routesOf([kernelManifest, ...bundled.map(({ manifest }) => manifest)])
    .map(({ decl: { method, url } }) => `${method} ${url}`)
  const placed = Object.values(places).flat()
  t.same(placed.filter((one, i) => placed.indexOf(one) !== i), [], 'each once')
  t.same(declared.filter((one) => !placed.includes(one)), [], 'a new route: say in `places` what it yields')
  t.same(placed.filter((one) => !declared.includes(one)), [], 'none that is gone')
  t.end()
})
