/**
 * Records answers from the real llama-server, which the stand-in server of the short tests replays:
 * npm run test:real -- record
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { writeModel, type ModelOptions } from './gguf.js'

const FIXTURES = new URL('../../plugins/llama-cpp/test/fixtures/', import.meta.url)
export const FILE = fileURLToPath(new URL('llama-recorded.json', FIXTURES))
const PIN = JSON.parse(readFileSync(new URL('pin.json', import.meta.url), 'utf8')) as Record<string, string>

type Json = Record<string, unknown>
interface Said { status: number, body: unknown }
export interface Recorded {
  release: string, build: string, answers: Record<string, Said>, streams: Record<string, string[]>
}

/** Replacements for fields that differ from run to run, by name. */
const FIXED: Record<string, unknown> = {
  created: 0, id: 'chatcmpl-1', model: 'm.gguf', model_path: 'm.gguf', model_alias: 'm.gguf', seed: 1,
  time_ms: 1, prompt_ms: 10, prompt_per_token_ms: 1, prompt_per_second: 100, predicted_ms: 20,
  predicted_per_token_ms: 1, predicted_per_second: 50, media_marker: '<media>', t_start: 0, id_slot: 0
}

function steady (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(steady)
  if (typeof value === 'number' && !Number.isInteger(value)) return Math.round(value * 1000) / 1000
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => {
    const fixed = FIXED[key]
    if (fixed !== undefined && typeof fixed === typeof each) return [key, fixed]
    return [key, steady(each)]
  }))
}

const steadyText = (body: string): unknown => {
  try {
    return steady(JSON.parse(body))
  } catch {
    return body
  }
}

/** Sends a request to the llama-server on a socket file. */
async function asked (socketPath: string, path: string, body?: Json, key = 'k'): Promise<[number, string]> {
  const headers = { authorization: `Bearer ${key}` }
  const method = body === undefined ? 'GET' : 'POST'
  const sent = request({ socketPath, path, headers, agent: false, method })
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  return [answer.statusCode ?? 0, await text(answer)]
}

interface Server {
  answer: (path: string, body?: Json, key?: string) => Promise<Said>
  stream: (path: string, body: Json) => Promise<string[]>
}

/** Runs `use` with a llama-server that serves a generated model. */
async function served (
  programs: string, made: ModelOptions, more: readonly string[], use: (server: Server) => Promise<void>
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-record-'))
  const socket = join(folder, 's.sock')
  writeModel(join(folder, 'm.gguf'), made)
  writeFileSync(join(folder, 'key'), 'k\n')
  const child = spawn(join(programs, 'llama-server'), [
    '--model', 'm.gguf', '--host', socket, '--api-key-file', 'key', '--threads', '1', '--ctx-size', '256',
    '--parallel', '1', '--no-ui', '--offline', '--jinja', '--device', 'none', ...more
  ], { cwd: folder, stdio: 'ignore' })
  try {
    while (await asked(socket, '/health').then(([status]) => status !== 200, () => true)) {
      if (child.exitCode !== null) throw new Error(`llama-server exited with code ${child.exitCode}`)
      await delay(20)
    }
    await use({
      answer: async (path, body, key) => {
        const [status, told] = await asked(socket, path, body, key)
        return { status, body: steadyText(told) }
      },
      stream: async (path, body) => {
        const [, told] = await asked(socket, path, { stream: true, return_progress: true, ...body })
        return told.split('\n\n').filter((event) => event !== '').map((event) => {
          const data = event.replace(/^data: /, '')
          return data === '[DONE]' ? event : `data: ${JSON.stringify(steadyText(data))}`
        })
      }
    })
  } finally {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

const clock = { type: 'function', function: { name: 'clock', parameters: {
  type: 'object', properties: { zone: { type: 'string' } }, required: ['zone']
} } }
const CHAT = '/v1/chat/completions'
/** GGUF pooling type: reranker. */
const RANK = 4
const chat = (more: Json = {}): Json => ({
  messages: [{ role: 'user', content: 'Hi' }], temperature: 0, max_tokens: 50,
  stream_options: { include_usage: true }, ...more
})

/** The scripted answer for each recorded model. */
const SCRIPTS: Record<string, { script: string[], more?: Json }> = {
  words: { script: ['It is', ' dry in', ' Oslo today.'] },
  logprobs: { script: ['It is', ' dry in', ' Oslo today.'], more: { logprobs: true, top_logprobs: 2 } },
  cut: { script: ['It is', ' dry in', ' Oslo today.'], more: { max_tokens: 2 } },
  think: { script: ['<think>', '\nHm, rain', ' or not?\n', '</think>', '\n\nNo, it', ' is dry.'] },
  call: {
    script: ['<tool_call>', '\n{"name": "clock",', ' "arguments": {"zone":', ' "utc"}}', '\n</tool_call>'],
    more: { tools: [clock], tool_choice: 'auto' }
  }
}

async function answersOf ({ answer, stream }: Server, { answers, streams }: Recorded): Promise<void> {
  const all: Record<string, [path: string, body?: Json | undefined, key?: string]> = {
    health: ['/health'], props: ['/props'], unknown: ['/nothing', {}],
    key: ['/props', undefined, 'another'],
    tokenize: ['/tokenize', { content: 'Hi there', add_special: true, parse_special: true }],
    detokenize: ['/detokenize', { tokens: [13048, 1052] }],
    template: ['/apply-template', { messages: [{ role: 'user', content: 'Hi' }] }],
    tooLong: ['/completion', { prompt: 'word '.repeat(400), n_predict: 1 }],
    grammar: ['/completion', { prompt: 'Hi', json_schema: { type: 'nothing' } }],
    repeat: ['/completion', { prompt: 'Hi', repeat_last_n: -1 }]
  }
  for (const [name, call] of Object.entries(all)) answers[name] = await answer(...call)
  const given = { prompt: 'Hi', n_predict: 50, temperature: 0 }
  streams['completion'] = await stream('/completion', given)
  streams['completion logprobs'] = await stream('/completion', { ...given, n_probs: 2 })
  streams['completion cut'] = await stream('/completion', { ...given, n_predict: 2 })
  streams['completion stop'] = await stream('/completion', { ...given, stop: [' dry'] })
}

/** Records llama-server's answers and streams. */
export async function record (programs: string): Promise<Recorded> {
  const models = join(programs, '../../models')
  const file = (name: string): string => join(models, `ggml-vocab-${name}.gguf`)
  const qwen = readFileSync(join(models, 'templates/Qwen-Qwen3-0.6B.jinja'), 'utf8')
  const recorded: Recorded = { release: PIN['release']!, build: '', answers: {}, streams: {} }
  for (const [name, { script, more }] of Object.entries(SCRIPTS)) {
    const made = { vocabulary: file('qwen2'), template: qwen, script }
    await served(programs, made, [], async (server) => {
      recorded.streams[name] = await server.stream(CHAT, chat(more))
      if (name === 'words') await answersOf(server, recorded)
    })
  }
  const encoder = { vocabulary: file('bert-bge'), encoder: true, shape: { context: 512, width: 32 } }
  await served(programs, encoder, ['--embeddings'], async ({ answer }) => {
    recorded.answers['embeddings'] = await answer('/v1/embeddings', { input: ['a', 'rain'] })
  })
  await served(programs, { ...encoder, pooling: RANK }, ['--reranking'], async ({ answer }) => {
    recorded.answers['rerank'] = await answer('/v1/rerank', { query: 'Hi', documents: ['a', 'rain'] })
  })
  recorded.build = String((recorded.answers['props']!.body as Json)['build_info'])
  return recorded
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const programs = process.env['SVC_TEST_LLAMA'] ?? ''
  writeFileSync(FILE, `${JSON.stringify(await record(programs), null, 1)}\n`)
  process.stdout.write(`${FILE}\n`)
}
