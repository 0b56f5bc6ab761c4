import { once } from 'node:events'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { systemClock, type Clock } from '../../../kernel/api/clock.js'
import { AuditService, EngineError, type EngineTask, type ModelCard } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import stt from '../../capabilities-stt/index.js'
import tts from '../../capabilities-tts/index.js'
import { RunnersService, type Runners } from '../../runners/service.js'
import { encodeEvent, readEvents, type WyomingEvent } from '../events.js'
import { doctor } from '../report.js'
import plugin from '../index.js'
import type { CheckContext } from '../../../kernel/cli/index.js'

const WHISPER = {
  modelId: 'acme/whisper', title: 'Whisper', tasks: ['stt'], languages: ['en', 'de'], voices: []
}
const VOICE = {
  modelId: 'acme/voices', title: 'Voices', tasks: ['tts'], languages: ['en'],
  voices: [{ id: 'ann', name: 'Ann', language: 'en-US' }, { id: 'bea', name: 'Bea', language: 'de-DE' }]
}
const SEGMENT = {
  event: 'segment', id: 0, start: 0, end: 1, tokens: [1], temperature: 0, avg_logprob: 0,
  compression_ratio: 1, no_speech_prob: 0
}

const pause = async (): Promise<unknown> => await new Promise((resolve) => setTimeout(resolve, 5))

interface Given { wyoming?: object, models?: object[], fail?: EngineError | Error, clock?: Clock }

/** A node with a Wyoming port, whose engines record their tasks. */
async function start (test: Parameters<typeof startPlugin>[0], given: Given = {}) {
  const { wyoming = { port: 0 }, models = [WHISPER, VOICE], fail, clock = systemClock } = given
  const cards = models as ModelCard[]
  const tasks: { payload: EngineTask['payload'], bytes: number, ended: boolean }[] = []
  const audited: object[] = []
  const runners = fake(RunnersService, {
    route: async ({ modelId }: { modelId: string }) =>
      ({ taskId: 't', nodeId: 'n', installId: 'i-n', instanceId: 'i', runnerId: 'r', modelId }),
    async * open (_route: unknown, task: EngineTask, signal?: AbortSignal) {
      const seen = { payload: task.payload, bytes: 0, ended: false }
      tasks.push(seen)
      signal?.addEventListener('abort', () => { seen.ended = true })
      if (fail !== undefined) throw fail
      if (task.kind === 'tts') {
        const timing = { timestampSeconds: 0, durationSeconds: 0.1 }
        const payload = { format: 'pcm', sample_rate: 22_050 }
        yield { payload, media: Buffer.from(String(task.payload['text'])), timing }
        return
      }
      for await (const bytes of task.input ?? []) seen.bytes += bytes.byteLength
      yield { payload: { event: 'language', language: 'en' } }
      yield { payload: { ...SEGMENT, text: ' Turn on' } }
      yield { payload: { ...SEGMENT, text: ' the light.' } }
      yield { payload: { event: 'done', language: 'en', duration: 1 } }
    },
    card: (id: string) => cards.find(({ modelId }) => modelId === id),
    models: (task: string) => cards.filter(({ tasks }) => tasks.includes(task))
      .map((card) => ({ card, ready: true }))
  } as unknown as Partial<Runners>)
  const audit = fake(AuditService, {
    begin: async (change) => {
      audited.push(change)
      return async () => {}
    },
    refused: () => {}
  })
  const rig = await startPlugin(test, plugin, {
    clock, fakes: [runners, audit], plugins: [tts, stt], settings: { wyoming }
  })
  const view = async () => (await rig.inject({ url: '/v1/wyoming' })).json() as
    { port: number | null, reason: string | null }
  for (let i = 0; i < 100 && (await view()).port === null && (await view()).reason === null; i++) {
    await pause()
    if (Object.hasOwn(wyoming, 'port') === false) break
  }
  return { rig, tasks, audited, view }
}

type Sent = readonly [type: string, data?: object, payload?: Uint8Array]

/** Sends events on one connection, and reads until an event of the type `last` or the end. */
async function exchange (
  port: number, sent: readonly (Sent | string)[], last?: string
): Promise<WyomingEvent[]> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  for (const event of sent) socket.write(typeof event === 'string' ? event : encodeEvent(...event))
  const answers: WyomingEvent[] = []
  for await (const event of readEvents(socket)) {
    answers.push(event)
    if (event.type === last) break
  }
  socket.destroy()
  return answers
}

const FORMAT = { rate: 16_000, width: 2, channels: 1 }
const types = (events: readonly WyomingEvent[]): string[] => events.map(({ type }) => type)

t.test('describe, ping and a wake word that svc does not have', async (t) => {
  const { view, audited } = await start(t)
  const { port } = await view()
  const [info, pong] = await exchange(port!, [['describe'], ['detect'], ['ping', { text: 'x' }]], 'pong')
  t.match(info, {
    type: 'info',
    data: {
      asr: [{ name: 'svc', installed: true, supports_transcript_streaming: true,
        models: [{ name: 'acme/whisper', installed: true, languages: ['en', 'de'] }] }],
      tts: [{ supports_synthesize_streaming: true,
        voices: [{ name: 'acme/voices/ann', languages: ['en-US'] }, { name: 'acme/voices/bea' }] }]
    }
  })
  t.match(pong, { type: 'pong', data: { text: 'x' } })
  t.match(audited, [{ what: 'wyoming', detail: { port, allow: [] } }])
  const bare = await start(t, { models: [] })
  const [empty] = await exchange((await bare.view()).port!, [['describe']], 'info')
  t.match(empty, { data: { asr: [], tts: [] } })
})

t.test('sound becomes text, several times on a connection', async (t) => {
  const { view, tasks } = await start(t)
  const { port } = await view()
  const sound = Buffer.alloc(3200, 1)
  const chunk = ['audio-chunk', FORMAT, sound] as const
  const stereo = ['audio-chunk', { ...FORMAT, rate: 48_000, channels: 2 }, sound] as const
  const answers = await exchange(port!, [
    ['transcribe', { language: 'en-US' }], ['audio-start', FORMAT], chunk, chunk, ['audio-stop'],
    ['transcribe', { name: 'acme/other', context: 'light' }], stereo, ['audio-stop'],
    ['audio-stop'], ['ping']
  ], 'pong')
  const streamed = ['start', 'chunk', 'chunk', '', 'stop'].map((end) => `transcript${end && `-${end}`}`)
  t.same(types(answers), [...streamed, ...streamed, 'transcript', 'pong'])
  t.match(answers[1]!.data, { text: ' Turn on' })
  t.match(answers[3]!.data, { text: 'Turn on the light.', language: 'en' })
  t.match(tasks, [
    { bytes: 6400, payload: { format: 'pcm', sample_rate: 16_000, language: 'en' } },
    { bytes: 1600, payload: { sample_rate: 48_000, prompt: 'light', language: undefined } }
  ])
})

t.test('text becomes sound, whole and in pieces', async (t) => {
  const { view, tasks } = await start(t)
  const { port } = await view()
  const spoken = ['audio-start', 'audio-chunk', 'audio-stop']
  const rows: [sent: Sent[], answer: string[], texts: string[], voice: string | undefined][] = [
    [[['synthesize', { text: 'Hello. You.' }]], spoken, ['Hello. You.'], undefined],
    [[['synthesize', { text: 'Hi', voice: { name: 'acme/voices/bea' } }]], spoken, ['Hi'], 'bea'],
    [[['synthesize', { text: 'Hi', voice: { language: 'de' } }]], spoken, ['Hi'], 'bea'],
    [[['synthesize', { text: 'Hi', voice: { name: 'nobody' } }]], ['error'], [], undefined],
    [[['synthesize', { text: ' ' }]], ['audio-stop'], [], undefined],
    [[['synthesize', { text: 'x'.repeat(100_001) }]], ['error'], [], undefined],
    [[['synthesize-start', { voice: { language: 'de_DE' } }], ['synthesize-chunk', { text: 'One. Two' }],
      ['synthesize-chunk', { text: ' and. Three' }], ['synthesize', { text: 'One. Two and. Three' }],
      ['synthesize-stop']],
    ['audio-start', 'audio-chunk', 'audio-chunk', 'audio-chunk', 'audio-stop', 'synthesize-stopped'],
    ['One. ', 'Two and. ', 'Three'], 'bea'],
    [[['synthesize-start'], ...['One', '.', '', ' ', 'T', 'wo\n', '', 'x'].map((text): Sent =>
      ['synthesize-chunk', { text }]), ['synthesize-stop']],
    ['audio-start', 'audio-chunk', 'audio-chunk', 'audio-chunk', 'audio-stop', 'synthesize-stopped'],
    ['One. ', 'Two\n', 'x'], undefined],
    [[['synthesize-start', { voice: { name: 'nobody' } }], ['synthesize-chunk', { text: 'One. ' }],
      ['synthesize-chunk', { text: 'Two. ' }], ['synthesize', { text: 'One. Two.' }], ['synthesize-stop']],
    ['error'], [], undefined]
  ]
  for (const [sent, expected, texts, voice] of rows) {
    tasks.length = 0
    const answers = await exchange(port!, [...sent, ['ping']], 'pong')
    const ends = expected.includes('error')
    t.same(types(answers), [...expected, ...ends ? [] : ['pong']], JSON.stringify(sent).slice(0, 80))
    t.same(tasks.map(({ payload }) => payload['text']), texts)
    const payload = { encoding: 'pcm', ...voice === undefined ? {} : { voice } }
    t.match(tasks, texts.map(() => ({ payload })))
    const [first] = answers
    if (first?.type === 'audio-start') t.match(first.data, { rate: 22_050, width: 2, channels: 1 })
  }
})

t.test('an error reaches the client and ends the connection', async (t) => {
  const chunk: Sent = ['audio-chunk', FORMAT, Buffer.alloc(320)]
  for (const [given, sent, code] of [
    [{ models: [VOICE] }, [chunk, ['audio-stop']], 'no_instance'],
    [{ models: [WHISPER] }, [['synthesize', { text: 'x' }]], 'no_instance'],
    [{ fail: new EngineError('language_unknown', 'No Welsh.') }, [chunk, ['audio-stop']],
      'language_unknown'],
    [{}, [['audio-chunk', { ...FORMAT, width: 4 }, Buffer.alloc(4)], ['audio-stop']], 'protocol_error'],
    [{}, [['audio-chunk', { ...FORMAT, rate: 1 }], ['audio-chunk', { rate: 1 }], ['audio-stop']],
      'protocol_error'],
    [{ fail: new Error('a secret path') }, [chunk, ['audio-stop']], 'internal']
  ] as [Given, Sent[], string][]) {
    const { view } = await start(t, given)
    const answers = await exchange((await view()).port!, [...sent, ['ping']], 'pong')
    const others = answers.filter(({ type }) => !type.startsWith('transcript-'))
    t.same(types(others), ['error'])
    t.match(others, [{ type: 'error', data: { code } }])
  }
})

t.test('each field of an event is checked', async (t) => {
  const { view } = await start(t)
  const { port } = await view()
  const sound = Buffer.alloc(64)
  const first: Sent = ['audio-chunk', FORMAT, sound]
  const rows: Sent[][] = [
    ...[{ channels: 1e9 }, { channels: 1.5 }, { channels: 0 }, { rate: '1' }, { rate: 8000 }, { width: 1 }]
      .map((bad): Sent[] => [first, ['audio-chunk', { ...FORMAT, ...bad }, sound], first, ['audio-stop']]),
    ...[{ text: 5 }, { text: {} }, { voice: 'ann' }, { voice: { language: 5 } }]
      .map((bad): Sent[] => [['synthesize', { text: 'x', ...bad }]]),
    [['transcribe', { language: ['en'] }], first, ['audio-stop']],
    [['ping', { text: [] }]]
  ]
  for (const sent of rows) {
    const answers = await exchange(port!, [...sent, ['ping']], 'pong')
    const others = answers.filter(({ type }) => type !== 'transcript-start')
    t.match(others, [{ type: 'error', data: { code: 'protocol_error' } }], JSON.stringify(sent).slice(-150))
    t.equal(others.length, 1)
  }
})

t.test('what is no event ends the connection', async (t) => {
  const { view } = await start(t)
  const { port } = await view()
  for (const [bad, text] of [
    ['GET / HTTP/1.1\r\n', /JSON/], ['[]\n', /JSON/], ['null\n', /JSON/], ['{}\n', /no type/],
    ['x'.repeat(70_000), /longer/], ['{"type":"ping","data_length":1e9}\n', /`data_length` .* to 1048576/],
    ['{"type":"ping","payload_length":-1}\n', /`payload_length` must be an integer/],
    ['{"type":"ping","payload_length":"1"}\n', /`payload_length` .* number/],
    ['{"type":"ping","data_length":3}\nabc', /JSON/], ['{"type":"ping","data_length":3}\n[1]', /object/],
    ['{"type":"ping","data":"abc"}\n', /`data` .* object/],
    ['{"type":"ping","data":[]}\n', /`data` .* object/]
  ] as const) {
    const answers = await exchange(port!, [bad])
    t.match(answers, [{ type: 'error', data: { code: 'protocol_error', text } }], bad.slice(0, 40))
  }
  const inline = await exchange(port!, ['{"type":"ping","data":{"text":"a"},"data_length":null}\n'], 'pong')
  t.match(inline, [{ data: { text: 'a' } }])
})

t.test('a client that leaves ends its task', async (t) => {
  const { view, tasks } = await start(t)
  const socket = connect((await view()).port!, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(encodeEvent('audio-chunk', FORMAT, Buffer.alloc(320)))
  await once(socket, 'data')
  socket.destroy()
  for (let i = 0; i < 200 && tasks[0]?.ended !== true; i++) await pause()
  t.match(tasks, [{ ended: true }])
})

t.test('a client may end its side after its request', async (t) => {
  const { view, tasks } = await start(t)
  const socket = connect({ port: (await view()).port!, host: '127.0.0.1', allowHalfOpen: true })
  socket.write(encodeEvent('transcribe', { language: '' }))
  socket.write(encodeEvent('audio-chunk', FORMAT, Buffer.alloc(320)))
  await once(socket, 'data')
  socket.end(encodeEvent('audio-stop'))
  const answers: WyomingEvent[] = []
  for await (const event of readEvents(socket)) answers.push(event)
  t.match(answers.at(-2), { type: 'transcript', data: { text: 'Turn on the light.', language: 'en' } })
  t.equal(tasks[0]!.payload['language'], undefined, 'an empty language is detected')
})

t.test('many small events take linear time and leave turns to others', async (t) => {
  const pieces = encodeEvent('synthesize-chunk', { text: 'x' }).toString().repeat(10_000)
  async function * source () { yield Buffer.from(pieces) }
  let [turns, events, open] = [0, 0, true]
  void (async () => { for (; open; turns++) await nextTurn() })()
  for await (const { type } of readEvents(source())) events += Number(type === 'synthesize-chunk')
  open = false
  t.equal(events, 10_000)
  t.ok(turns >= 150, `${turns} turns`)
  const { view, tasks } = await start(t)
  const sent = [['synthesize-start'], pieces, ['synthesize-stop']] as const
  const startedMs = systemClock.mono()
  const answers = await exchange((await view()).port!, sent, 'synthesize-stopped')
  t.comment(`${systemClock.mono() - startedMs} ms`)
  t.equal(answers.at(-1)?.type, 'synthesize-stopped')
  t.match(tasks, [{ payload: { text: 'x'.repeat(10_000) } }])
})

t.test('refused peers are logged once a minute, with their number', async (t) => {
  const address = Object.values(networkInterfaces()).flat()
    .find((one) => one?.internal === false && one.family === 'IPv4')?.address
  if (address === undefined) return
  let nowMs = 0
  const clock = { ...systemClock, mono: () => nowMs }
  const { rig, view } = await start(t, { wyoming: { port: 0, allow: ['192.0.2.1'] }, clock })
  const { port } = await view()
  for (nowMs of [0, 1000, 59_999, 60_000]) {
    await once(connect(port!, address).on('error', () => {}), 'close')
    await pause()
  }
  const warned = rig.logged.filter(({ message }) => message.includes('not listed'))
  t.match(warned.map(({ fields }) => fields), [{ address, refused: 1 }, { address, refused: 3 }])
  t.equal(warned.length, 2)
})

t.test('who may connect', async (t) => {
  t.match(await (await start(t, { wyoming: {} })).view(), { port: null, reason: null }, 'off by default')
  const { view, audited } = await start(t, { wyoming: { port: 0, allow: ['192.0.2.0/24', '2001:db8::1'] } })
  const { port } = await view()
  t.match(await view(), { allow: ['192.0.2.0/24', '2001:db8::1'] })
  t.match(audited, [{ detail: { allow: ['192.0.2.0/24', '2001:db8::1'] } }])
  t.match(await exchange(port!, [['ping']], 'pong'), [{ type: 'pong' }], 'this machine always may')
  const taken = await start(t, { wyoming: { port } })
  t.match(await taken.view(), { reason: /EADDRINUSE/ })
  await t.rejects(start(t, { wyoming: { port: 0, allow: ['home'] } }), { message: /allow/ } as never)
})

t.test('the doctor names the exception', async (t) => {
  const view = { port: 10_300, allow: ['192.0.2.1'], reason: null }
  for (const [given, expected] of [
    [view, [/10300 serves speech without a token to 192\.0\.2\.1/]],
    [{ ...view, allow: [] }, [/this machine/]],
    [{ ...view, port: null }, []],
    [{ ...view, port: null, reason: 'EADDRINUSE' }, [/EADDRINUSE/]]
  ] as const) {
    const checks = await doctor.run({ look: async () => given } as unknown as CheckContext)
    t.match(checks.map(({ message }) => message), expected)
  }
})
