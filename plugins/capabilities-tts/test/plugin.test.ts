import t from 'tap'
import OpenAI from 'openai'
import { systemClock } from '../../../kernel/api/clock.js'
import { EngineError, kernelError } from '../../../kernel/index.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { RunnersService, runTask } from '../../runners/service.js'
import { inputSchema, outputChunkSchema, tts } from '../declarations.js'
import plugin from '../index.js'
import { modelFor, renamed, voiceFor } from '../openai-names.js'
import { speechEvent, toTask } from '../speech.js'
import type { CapabilityCall, EngineChunk, EngineTask, ModelCard } from '../../../kernel/index.js'
import type { Runners } from '../../runners/service.js'
import type { Fake, StartOptions } from '../../../kernel/testing/index.js'

const VOICE = 'svc/voice-en'
const card = { modelId: VOICE, voices: [{ id: 'rms', name: 'RMS', language: 'en' }, { id: 'slt', name: 'SLT',
  language: 'en' }] } as ModelCard

/** A fake engine's answer: two chunks in the requested encoding. */
async function * spoken (task: EngineTask): AsyncGenerator<EngineChunk> {
  const format = (task.payload['encoding'] ?? 'mp3') as string
  for (const index of [0, 1]) {
    yield {
      payload: { model: VOICE, format, chunk_index: index, sample_rate: 16000, is_partial: index === 0 },
      media: Buffer.from(`${format}${index}`),
      timing: { timestampSeconds: index, durationSeconds: 1 }
    }
  }
}

interface Asked { tasks: EngineTask[], models: string[] }

function runners (asked: Asked, open: typeof spoken = spoken): Fake {
  return fake(RunnersService, {
    async route ({ modelId }) {
      asked.models.push(modelId)
      if (modelId !== VOICE) throw kernelError('no_instance', `No instance found for model ${modelId}`)
      return { taskId: 'task-1', nodeId: 'n', installId: 'i-n', instanceId: 'i', runnerId: 'r', modelId }
    },
    open: (_route, task) => { asked.tasks.push(task); return open(task) },
    card: (modelId) => modelId === VOICE ? card : undefined,
    models: () => [{ card, ready: true }]
  })
}

function start (t: Parameters<typeof startPlugin>[0], options: StartOptions & { open?: typeof spoken } = {}) {
  const asked: Asked = { tasks: [], models: [] }
  const fakes = [runners(asked, options.open)]
  const rig = startPlugin(t, plugin, { clock: systemClock, fakes, ...options })
  return rig.then((r) => ({ rig: r, asked }))
}

t.test('the descriptor is the documented one', (t) => {
  t.same(inputSchema.required, ['model', 'text'])
  t.same(Object.keys(inputSchema.properties), ['model', 'text', 'voice', 'response_format',
    'streaming_interval', 'speed', 'instruct', 'lang_code', 'temperature', 'top_p', 'top_k',
    'repetition_penalty', 'max_tokens', 'seed'])
  t.equal(inputSchema.additionalProperties, false)
  t.same(outputChunkSchema.required, ['model', 'format', 'chunk_index', 'is_partial'])
  t.same(tts.annotations, { modality: 'audio', latency: 'interactive', runtime: 'onnxruntime',
    stability: 'experimental' })
  t.match(tts, { id: 'tts', version: '1.0.0', io_mode: 'server_streaming', output_schema: null,
    input_chunk_schema: null })
  t.end()
})

t.test('an OpenAI body as a task', (t) => {
  const aliases = { models: { 'tts-1': VOICE }, voices: { alloy: 'slt' }, openai: true }
  const rows: [Parameters<typeof toTask>[0], object][] = [
    [{ model: VOICE, input: 'Hi' }, { model: VOICE, text: 'Hi', encoding: 'mp3' }],
    [{ model: 'tts-1', input: 'Hi', voice: 'alloy', response_format: 'pcm' },
      { model: VOICE, text: 'Hi', voice: 'slt', encoding: 'pcm' }],
    [{ model: VOICE, input: 'Hi', voice: { id: 'rms' }, instructions: 'Softly.' },
      { model: VOICE, text: 'Hi', voice: 'rms', instruct: 'Softly.', encoding: 'mp3' }],
    [{ model: VOICE, input: 'Hi', speed: 2, seed: 0, max_tokens: 5, lang_code: 'en' },
      { model: VOICE, text: 'Hi', speed: 2, seed: 0, max_tokens: 5, lang_code: 'en', encoding: 'mp3' }],
    [{ model: 'constructor', input: 'Hi', voice: 'toString' },
      { model: 'constructor', text: 'Hi', voice: 'toString', encoding: 'mp3' }]
  ]
  for (const [body, expect] of rows) t.same(toTask(body, aliases, []), { silence: 0.2, ...expect })
  t.equal(renamed({}, '__proto__'), '__proto__')
  t.end()
})

t.test('names of OpenAI stand for what is placed, unless something has that name', (t) => {
  const speaker = (modelId: string, ready: boolean, voices: string[] = []) =>
    ({ card: { modelId, voices: voices.map((id) => ({ id })) } as unknown as ModelCard, ready })
  const none = { models: {}, voices: {}, openai: true }
  const check = (name: string, speakers: [string, boolean][], expected: string, aliases = none): void => {
    t.equal(modelFor(name, aliases, speakers.map(([id, ready]) => speaker(id, ready))), expected, name)
  }
  const ships: [string, boolean] = [VOICE, true]
  for (const name of ['tts-1', 'tts-1-hd', 'gpt-4o-mini-tts', 'gpt-4o-mini-tts-2025-12-15']) {
    check(name, [ships], VOICE)
  }
  check('tts-1', [['a/piper', true], ['b/kokoro', true], ships], 'a/piper')
  check('tts-1', [ships, ['a/piper', false]], VOICE)
  check('tts-1', [['a/piper', false]], 'a/piper')
  check('tts-1', [], 'tts-1')
  check('tts-1', [ships, ['tts-1', false]], 'tts-1')
  check('tts-1', [ships], 'b/other', { ...none, models: { 'tts-1': 'b/other' } as Record<string, string> })
  check('tts-1', [ships], 'tts-1', { ...none, openai: false })
  check('gpt-4o', [ships], 'gpt-4o')
  const kokoro = speaker('a/kokoro', true, ['af_heart', 'af_alloy', 'am_echo']).card
  const voice = (name: string, expected: string | undefined, of = kokoro, aliases = none): void => {
    t.equal(voiceFor(name, aliases, of), expected, name)
  }
  voice('alloy', 'af_alloy')
  voice('echo', 'am_echo')
  voice('alloy', 'alloy', speaker('x', true, ['alloy']).card)
  const others = 'ash ballad coral fable nova onyx sage shimmer verse marin cedar'
  for (const name of others.split(' ')) voice(name, undefined)
  voice('nobody', 'nobody')
  voice('alloy', 'alloy', kokoro, { ...none, openai: false })
  voice('alloy', 'am_echo', kokoro, { ...none, voices: { alloy: 'am_echo' } as Record<string, string> })
  t.end()
})

t.test('the answer says which model and voice spoke', async (t) => {
  const { rig, asked } = await start(t)
  const url = '/v1/audio/speech'
  const speak = async (payload: object) => await rig.inject({ method: 'POST', url, payload })
  const answer = await speak({ model: 'gpt-4o-mini-tts', input: 'Hi', voice: 'alloy' })
  t.equal(answer.statusCode, 200)
  t.match(answer.headers, { 'x-svc-model': VOICE, 'x-svc-voice': 'rms' })
  t.notOk('voice' in asked.tasks[0]!.payload, 'the model chooses')
  t.match((await speak({ model: VOICE, input: 'Hi', voice: 'slt' })).headers, { 'x-svc-voice': 'slt' })
  t.equal((await rig.inject({ url: '/v1/audio/voices?model=tts-1' })).statusCode, 200)
})

t.test('the events of a speech stream', (t) => {
  const frame = { payload: null, media: null, error: null }
  t.equal(speechEvent({ ...frame, kind: 'started' }), ': keep-alive\n\n')
  t.equal(speechEvent({ ...frame, kind: 'chunk', media: Buffer.from('abc') }),
    'data: {"type":"speech.audio.delta","audio":"YWJj"}\n\n')
  t.match(speechEvent({ ...frame, kind: 'completed' }), /^data: {"type":"speech.audio.done","usage":/)
  t.equal(speechEvent({ ...frame, kind: 'failed', error: { error: { reason: 'x' } } }),
    'data: {"error":{"reason":"x"}}\n\n')
  t.end()
})

t.test('POST /v1/audio/speech', async (t) => {
  const { rig, asked } = await start(t, { config: { model_aliases: { 'tts-1': VOICE } } })
  const url = '/v1/audio/speech'
  const speak = async (payload: object) => await rig.inject({ method: 'POST', url, payload })
  const rows: [object, number, string, RegExp][] = [
    [{ model: VOICE, input: 'Hi' }, 200, 'audio/mpeg', /^mp30mp31$/],
    [{ model: 'tts-1', input: 'Hi', response_format: 'wav' }, 200, 'audio/wav', /^wav0wav1$/],
    [{ model: VOICE, input: 'Hi', response_format: 'pcm', unknown_field: 1 }, 200, 'audio/pcm', /^pcm0pcm1$/],
    [{ model: VOICE, input: 'Hi', stream_format: 'sse' }, 200, 'text/event-stream',
      /audio.delta.*audio.delta.*audio.done/s],
    [{ model: VOICE, input: 'Hi', response_format: 'flac' }, 200, 'audio/flac', /^flac0flac1$/],
    [{ model: VOICE, input: 'Hi', response_format: 'opus' }, 200, 'audio/ogg; codecs=opus', /^opus0opus1$/],
    [{ model: VOICE, input: 'Hi', response_format: 'aac' }, 200, 'audio/aac', /^aac0aac1$/],
    [{ model: VOICE, input: 'Hi', response_format: 'mp4' }, 400, 'application/json', /response_format must/],
    [{ model: VOICE, input: '' }, 400, 'application/json', /input must not be empty/],
    [{ input: 'Hi' }, 400, 'application/json', /model is required/],
    [{ model: 'acme/none', input: 'Hi' }, 404, 'application/json', /no_instance/]
  ]
  for (const [body, status, type, expect] of rows) {
    const answer = await speak(body)
    t.equal(answer.statusCode, status, JSON.stringify(body) + answer.body)
    t.match(answer.headers['content-type'], type)
    t.match(answer.body, expect)
    if (status === 200) {
      t.equal(answer.headers['x-svc-task-id'], 'task-1')
      t.ok(answer.headers['x-svc-command-id'])
    }
  }
  t.match((await speak({ model: 'acme/none', input: 'Hi' })).headers, { 'x-svc-command-id': String })
  t.notOk(asked.tasks.some((task) => 'unknown_field' in task.payload))
})

t.test('what the engine refuses is an ordinary error body', async (t) => {
  const { rig } = await start(t, { open: async function * () {
    throw new EngineError('text_unspeakable', 'Only punctuation.', { text: 'x' })
  } })
  const payload = { model: VOICE, input: '...' }
  const answer = await rig.inject({ method: 'POST', url: '/v1/audio/speech', payload })
  t.equal(answer.statusCode, 400)
  t.match(answer.json(), { error: { reason: 'text_unspeakable', message: 'Only punctuation.' } })
})

t.test('the capability passes chunks through, with their media beside them', async (t) => {
  const { rig, asked } = await start(t)
  const list = await rig.inject({ url: '/v1/capabilities' })
  const listing = list.json() as { revisions: Record<string, string> }
  const answer = await rig.inject({ method: 'POST', url: '/v1/capabilities/stream',
    headers: { accept: 'text/event-stream' }, payload: { capability_id: 'tts', version: '1.0.0',
      descriptor_revision: listing.revisions['tts@1.0.0'],
      payload: { model: VOICE, text: 'Hi', seed: 4294967295 } } })
  t.equal(answer.statusCode, 200)
  const frames = answer.body.split('\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as object)
  t.match(frames, [
    { sequence: 0, kind: 'started' },
    { sequence: 1, kind: 'chunk', payload: { chunk_index: 0, is_partial: true, model: VOICE, format: 'mp3' },
      media: { media_type: 'audio/mpeg', codec: 'mp3', sample_rate: 16000, channels: 1, size: 4,
        duration_seconds: 1 } },
    { sequence: 2, kind: 'chunk', payload: { chunk_index: 1, is_partial: false } },
    { sequence: 3, kind: 'completed', error: null }
  ])
  t.match(asked.tasks[0], { kind: 'tts', payload: { model: VOICE, text: 'Hi', seed: 4294967295 } })
})

t.test('voices of all models, of one, of none', async (t) => {
  const { rig } = await start(t)
  const both = [{ id: 'rms', name: 'RMS', model: VOICE }, { id: 'slt', name: 'SLT', model: VOICE }]
  const all = { object: 'list', data: both, voices: both }
  t.same((await rig.inject({ url: '/v1/audio/voices' })).json(), all)
  const one = await rig.inject({ url: `/v1/audio/voices?model=${VOICE}` })
  t.same(one.json(), all)
  t.equal((await rig.inject({ url: '/v1/audio/voices?model=acme/none' })).statusCode, 404)
  t.match((await rig.inject({ url: '/v1/audio/models' })).json(), { models: [{ id: VOICE }] })
})

t.test('the official OpenAI client', async (t) => {
  const { rig } = await start(t)
  const client = new OpenAI({ baseURL: `${await rig.listen()}/v1`, apiKey: 'none', maxRetries: 0,
    defaultHeaders: { authorization: null } })
  const answer = await client.audio.speech.create({ model: VOICE, voice: 'slt', input: 'Hi', speed: 1.5 })
  t.equal(Buffer.from(await answer.arrayBuffer()).toString(), 'mp30mp31')
  await t.rejects(client.audio.speech.create({ model: 'acme/none', voice: 'slt', input: 'Hi' }),
    { name: 'Error', status: 404, message: /No instance found for model acme\/none/ })
})

const LOST = (): Error => kernelError('instance_lost', 'The instance was lost.', { instanceId: 'i1' })

t.test('a stream of events opens while the voice is silent, and tells its loss in one event', async (t) => {
  const clock = manualClock()
  let release = (): void => {}
  const held = new Promise<void>((resolve) => { release = resolve })
  const { rig, asked } = await start(t, {
    clock, open: async function * () { await held; throw LOST(); yield * spoken({} as EngineTask) }
  })
  const answer = rig.inject({
    method: 'POST', url: '/v1/audio/speech', payload: { model: VOICE, input: 'Hi', stream_format: 'sse' }
  })
  while (asked.tasks.length === 0) await new Promise((resolve) => { setImmediate(resolve) })
  await clock.advance(1000)
  release()
  const { statusCode, body } = await answer
  t.equal(statusCode, 200)
  t.match(body, /^: keep-alive\n\ndata: \{"error":[^\n]*"instance_lost"[^\n]*\n\n$/)
})

interface Tries {
  excepted: (string | undefined)[]
  ends: ('lost' | 'lost after a chunk' | 'spoken' | 'other')[]
}

/** Fake runners whose attempts end as listed in `ends`; after those, no runner is ready. */
function flaky ({ excepted, ends }: Tries): Fake {
  let tries = 0
  return fake(RunnersService, {
    async route ({ modelId, except }) {
      excepted.push(except?.at(-1))
      if (tries >= ends.length) throw kernelError('no_instance', 'No other instance is ready.')
      const instanceId = `i${++tries}`
      return { taskId: `task-${tries}`, nodeId: 'n', installId: 'i-n', instanceId, runnerId: 'r', modelId }
    },
    async * open ({ instanceId }, task) {
      const end = ends[Number(instanceId.slice(1)) - 1]
      if (end === 'lost after a chunk') yield (await spoken(task).next()).value as EngineChunk
      if (end === 'other') throw kernelError('provider_error')
      if (end !== 'spoken') throw LOST()
      yield * spoken(task)
    },
    card: () => undefined,
    models: () => []
  })
}

interface Row {
  name: string
  header?: string
  sse?: boolean
  ends: Tries['ends']
  expect: [status: number, taskOrReason: string, retried?: string]
}
const rows: Row[] = [
  { name: 'a lost request is tried once more elsewhere', header: '1', ends: ['lost', 'spoken'],
    expect: [200, 'task-2', '1'] },
  { name: 'without the header nothing is tried again', ends: ['lost', 'spoken'],
    expect: [500, 'instance_lost'] },
  { name: 'with another value neither', header: '2', ends: ['lost', 'spoken'],
    expect: [500, 'instance_lost'] },
  { name: 'so is a stream of events of which nothing was said yet', header: '1', sse: true,
    ends: ['lost', 'spoken'], expect: [200, 'task-2', '1'] },
  { name: 'once and no more', header: '1', ends: ['lost', 'lost', 'spoken'], expect: [500, 'instance_lost'] },
  { name: 'only what was lost', header: '1', ends: ['other', 'spoken'], expect: [502, 'provider_error'] },
  { name: 'where no other instance is ready the loss is the answer', header: '1', ends: ['lost'],
    expect: [500, 'instance_lost'] },
  { name: 'nothing is tried again where nothing was lost', header: '1', ends: ['spoken'],
    expect: [200, 'task-1'] }
]
/** The audio in a response body, which is raw or base64 in events. */
const sound = (body: string): string => !body.startsWith(':') ? body
  : [...body.matchAll(/"audio":"([^"]+)"/g)].map(([, data]) => Buffer.from(data!, 'base64')).join('')
for (const { name, header, sse = false, ends, expect: [status, word, retried] } of rows) {
  t.test(name, async (t) => {
    const tries: Tries = { excepted: [], ends }
    const rig = await startPlugin(t, plugin, { clock: systemClock, fakes: [flaky(tries)] })
    const answer = await rig.inject({
      method: 'POST',
      url: '/v1/audio/speech',
      headers: header === undefined ? {} : { 'x-svc-retry': header },
      payload: { model: VOICE, input: 'Hi', ...(sse ? { stream_format: 'sse' } : {}) }
    })
    t.equal(answer.statusCode, status, answer.body)
    t.equal(answer.headers['x-svc-retried'], retried)
    if (status === 200) t.equal(answer.headers['x-svc-task-id'], word)
    else t.match(answer.json(), { error: { reason: word, retryable: word === 'instance_lost' } })
    if (status === 200) t.equal(sound(answer.body), 'mp30mp31', 'the whole answer, once')
    const again = header === '1' && ends[0] === 'lost'
    t.same(tries.excepted, again ? [undefined, 'i1'] : [undefined], 'elsewhere')
  })
}

t.test('after the first byte nothing is tried again: the answer is cut', async (t) => {
  const tries: Tries = { excepted: [], ends: ['lost after a chunk', 'spoken'] }
  const rig = await startPlugin(t, plugin, { clock: systemClock, fakes: [flaky(tries)] })
  const url = await rig.listen()
  const answer = await fetch(`${url}/v1/audio/speech`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-svc-retry': '1' },
    body: JSON.stringify({ model: VOICE, input: 'Hi' })
  })
  await t.rejects(answer.arrayBuffer())
  t.equal(tries.excepted.length, 1)
})

t.test('a cancel in the first try ends both', async (t) => {
  const excepted: unknown[] = []
  const call = new AbortController()
  const cancelled = runTask(fake(RunnersService, {
    async route ({ modelId, except }) {
      excepted.push(except?.at(-1))
      return { taskId: 'x', nodeId: 'n', installId: 'i', instanceId: 'i1', runnerId: 'r', modelId }
    },
    async * open () {
      call.abort(kernelError('cancelled'))
      throw LOST()
    }
  }).instance as Runners, { modelId: VOICE, capability: 'tts', task: { kind: 'tts', payload: {} } }, {
    retry: true, signal: call.signal, setHeader () {}, commandId: 'c'
  } as unknown as CapabilityCall)
  await t.rejects(cancelled.next(), { reason: 'instance_lost' } as never)
  t.same(excepted, [undefined])
})

t.test('names of any script get the answer they deserve, and long texts a 400', async (t) => {
  const { rig, asked } = await start(t)
  const say = async (more: object) => await rig.inject({
    method: 'POST', url: '/v1/audio/speech', payload: { model: VOICE, input: 'Hi', ...more }
  })
  const named = await say({ model: 'stimme/größe' })
  t.equal(named.statusCode, 404)
  t.match(named.json(), { error: { reason: 'no_instance', message: /stimme\/größe/ } })
  const voiced = await say({ voice: '声' })
  t.equal(voiced.statusCode, 200, 'which voices there are is for the engine to say')
  t.equal(voiced.headers['x-svc-voice'], 'UTF-8\'\'%E5%A3%B0')
  t.equal(asked.tasks.at(-1)!.payload['voice'], '声')
  const odd = await say({ voice: `\u0000\r\nx-evil: 1${'v'.repeat(3000)}` })
  t.match([odd.statusCode, odd.headers['x-svc-voice']], [200, /^UTF-8''%00%0D%0Ax-evil%3A%201v+$/])
  const rows: [object, string][] = [
    [{ input: 'x'.repeat(100_001) }, 'input'], [{ voice: 'v'.repeat(5000) }, 'voice'],
    [{ model: 'm'.repeat(5000) }, 'model'], [{ lang_code: 'l'.repeat(5000) }, 'lang_code']
  ]
  for (const [more, param] of rows) {
    const answer = await say(more)
    t.match([answer.statusCode, answer.json()],
      [400, { error: { param, message: /must have at most/ } }], param)
  }
  t.equal((await say({ input: 'x'.repeat(100_000) })).statusCode, 200)
  t.equal((await say({ input: 'x'.repeat(1024 * 1024) })).statusCode, 413)

  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json() as { revisions: object }
  const [revision] = Object.values(revisions) as string[]
  const call = async (more: object) => await rig.inject({
    method: 'POST', url: '/v1/capabilities/stream', payload: {
      capability_id: 'tts', version: '1.0.0', descriptor_revision: revision,
      payload: { model: VOICE, text: 'Hi', ...more }
    }
  })
  t.equal((await call({})).statusCode, 200)
  for (const [more, path] of [[{ text: 'x'.repeat(100_001) }, 'text'], [{ voice: 'v'.repeat(5000) }, 'voice'],
    [{ instruct: 'i'.repeat(5000) }, 'instruct']] as const) {
    const answer = await call(more)
    t.match([answer.statusCode, answer.json()],
      [400, { error: { reason: 'invalid_payload', details: { issues: [{ path }] } } }], path)
  }
  t.equal((await call({ text: 'x'.repeat(1024 * 1024 + 1) })).statusCode, 413)
})
