import type { Lines } from '../ui/text.js'
import type { Message, Settings, Tool } from './conversation.js'

type Json = Record<string, unknown>

/** The body of a `POST /v1/chat/completions` that asks the model to continue these messages. */
export function chatBody (model: string, settings: Settings, path: readonly Message[]): Json {
  const { system, sampling, tools } = settings
  return {
    model,
    messages: [
      ...system.trim() === '' ? [] : [{ role: 'system', content: system }],
      ...path.filter(worthSending).map(wireMessage)
    ],
    max_tokens: 4096, ...sampling,
    ...tools.length === 0 ? {} : { tools },
    stream: true, stream_options: { include_usage: true }
  }
}

/** Leaves out empty answers, which are useless to the model. */
const worthSending = ({ role, content, answer }: Message): boolean =>
  role !== 'assistant' || content !== '' || (answer?.toolCalls.length ?? 0) > 0

function wireMessage ({ role, content, images = [], callId, answer }: Message): Json {
  if (role === 'tool') return { role, tool_call_id: callId, content }
  if (role === 'user') {
    if (images.length === 0) return { role, content }
    const pictures = images.map((url) => ({ type: 'image_url', image_url: { url } }))
    return { role, content: [...content === '' ? [] : [{ type: 'text', text: content }], ...pictures] }
  }
  const calls = answer?.toolCalls ?? []
  return {
    role, content: content === '' && calls.length > 0 ? null : content,
    ...calls.length === 0 ? {} : { tool_calls: calls.map(({ id, name, arguments: given }) =>
      ({ id, type: 'function', function: { name, arguments: given } })) }
  }
}

/** Parses a JSON list of tools or of plain function definitions. Returns a message if it is invalid. */
export function readTools (text: string): Tool[] | string {
  if (text.trim() === '') return []
  let value: unknown
  try { value = JSON.parse(text) } catch (error) { return `This is not JSON: ${(error as Error).message}` }
  if (!Array.isArray(value)) return 'Tools are a list: [ … ].'
  const tools: Tool[] = []
  for (const [i, one] of (value as unknown[]).entries()) {
    const given = one as { function?: unknown } | null
    const bare = (given?.function ?? one) as Tool['function'] | null
    if (typeof bare?.name !== 'string' || bare.name === '') return `Tool ${i + 1} has no name.`
    tools.push({ type: 'function', function: bare })
  }
  return tools
}

/** A request to show as code: its origin and path, its body, and whether a token is needed. */
export interface Shown { origin: string, path: string, body: Json, withToken: boolean }

const PICTURE = /^data:(image\/[a-z]+);base64,.{64,}/

/** The body with image bytes left out. */
const forReading = (body: Json): Json => JSON.parse(JSON.stringify(body, (_, value: unknown) =>
  typeof value === 'string' && PICTURE.test(value)
    ? `${value.slice(0, value.indexOf(',') + 1)}BASE64_OF_THE_IMAGE`
    : value)) as Json

export const quote = (text: string): string =>
  /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

function curl ({ origin, path, body, withToken }: Shown, output: string): Lines {
  const streams = body['stream'] === true ? ' -N' : ''
  const token = withToken ? ` \\\n  -H "authorization: Bearer $SVC_TOKEN"` : ''
  const code = `curl${streams} ${origin}${path} -H 'content-type: application/json'${token} \\
  -d ${quote(JSON.stringify(body, null, 2))}${output}`
  return { name: 'curl', code }
}

const python = (value: unknown, depth = 1): string => {
  const [inner, outer] = ['    '.repeat(depth + 1), '    '.repeat(depth)]
  if (value === null || value === undefined) return 'None'
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) {
    return `[\n${value.map((one) => `${inner}${python(one, depth + 1)},\n`).join('')}${outer}]`
  }
  const entries = Object.entries(value).map(([key, one]) =>
    `${inner}${JSON.stringify(key)}: ${python(one, depth + 1)},\n`)
  return `{\n${entries.join('')}${outer}}`
}

const NOT_OPENAI = new Set(['top_k', 'min_p', 'repetition_penalty', 'streaming_interval'])

function pythonArguments (body: Json): string {
  const own = Object.entries(body).filter(([key]) => !NOT_OPENAI.has(key))
  const extra = Object.fromEntries(Object.entries(body).filter(([key]) => NOT_OPENAI.has(key)))
  return [
    ...own.map(([key, value]) => `    ${key}=${python(value)},\n`),
    ...Object.keys(extra).length === 0 ? [] : [`    extra_body=${python(extra)},\n`]
  ].join('')
}

const pythonClient = ({ origin, withToken }: Shown): string =>
  `${withToken ? 'import os\n' : ''}from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=${withToken ? 'os.environ["SVC_TOKEN"]' : '"none"'})
`
const scriptClient = ({ origin, withToken }: Shown): string => `import OpenAI from 'openai'

const apiKey = ${withToken ? 'process.env.SVC_TOKEN' : `'none'`}
const client = new OpenAI({ baseURL: '${origin}/v1', apiKey })
`

const svcCall = (shown: Shown, capability: string, payload: Json, rest = ''): string =>
  `svc --url ${shown.origin} call ${capability} --payload ${quote(JSON.stringify(payload, null, 2))}${rest}`

/** The chat request as code for other programs, which read a token from SVC_TOKEN as svc does. */
export function chatLines (given: Shown): Lines[] {
  const shown = { ...given, body: forReading(given.body) }
  const { stream: _stream, stream_options: _options, ...payload } = shown.body
  const run = svcRun(shown)
  return [
    curl(shown, ''),
    ...run === null ? [] : [{ name: 'svc run', code: run }],
    { name: 'svc call', code: svcCall(shown, 'chat@1.0.0', payload) },
    { name: 'OpenAI (Python)', code: `${pythonClient(shown)}
stream = client.chat.completions.create(
${pythonArguments(shown.body)})
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="")` },
    { name: 'OpenAI (JavaScript)', code: `${scriptClient(shown)}
const stream = await client.chat.completions.create(${JSON.stringify(shown.body, null, 2)})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '')` }
  ]
}

/** Options of `svc run`, by API field name. */
const RUN_OPTIONS: Record<string, string> = {
  temperature: '--temperature', max_tokens: '--max-tokens', seed: '--seed'
}
const SAID_BY_RUN = new Set(['model', 'messages', 'stream', 'stream_options', ...Object.keys(RUN_OPTIONS)])

/** A `svc run` command; null unless the request is a single question without tools or images. */
function svcRun ({ origin, body }: Shown): string | null {
  const messages = body['messages'] as { role: string, content: unknown }[]
  const system = messages.find(({ role }) => role === 'system')
  const others = messages.filter((one) => one !== system)
  const question = others[0]
  if (others.length !== 1 || question?.role !== 'user' || typeof question.content !== 'string') return null
  if (Object.keys(body).some((key) => !SAID_BY_RUN.has(key))) return null
  const options = Object.entries(RUN_OPTIONS).flatMap(([key, option]) =>
    body[key] === undefined ? [] : [`${option} ${JSON.stringify(body[key])}`])
  if (typeof system?.content === 'string') options.push(`--system ${quote(system.content)}`)
  return ['svc', `--url ${origin}`, 'run', quote(String(body['model'])), quote(question.content), ...options]
    .join(' ')
}

export function speechLines (shown: Shown): Lines[] {
  const { input, ...others } = shown.body
  const { model, voice, speed } = shown.body
  const options = Object.entries({ model, voice, speed })
    .flatMap(([name, value]) => value === undefined ? [] : [`--${name} ${quote(String(value))}`])
  const { response_format: _format, ...rest } = others
  const say = ['svc', `--url ${shown.origin}`, 'say', quote(String(input)), ...options, '-o speech.mp3']
  return [
    curl(shown, ' \\\n  -o speech.mp3'),
    { name: 'svc say', code: say.join(' ') },
    { name: 'svc call', code: svcCall(shown, 'tts@1.0.0', { ...rest, text: input }, ' -o speech.mp3') },
    { name: 'OpenAI (Python)', code: `${pythonClient(shown)}
speech = client.audio.speech.with_streaming_response.create(
${pythonArguments(shown.body)})
with speech as answer:
    answer.stream_to_file("speech.mp3")` },
    { name: 'OpenAI (JavaScript)', code: `import { writeFile } from 'node:fs/promises'
${scriptClient(shown)}
const answer = await client.audio.speech.create(${JSON.stringify(shown.body, null, 2)})
await writeFile('speech.mp3', Buffer.from(await answer.arrayBuffer()))` }
  ]
}
