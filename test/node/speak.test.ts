import t, { type Test } from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { decodeFrame, encodeFrame, type Frame } from '../../plugins/capabilities/frames/frames.js'
import { framesSeconds, walkFrames } from '../../plugins/capabilities-tts/test/mp3.js'
import { ask, call, open, refusal, stream, streamed, readBody } from './http.js'
import { folder, run, startNode, svc, until, cli, type TestNode } from './kit.js'
import { alive, rss } from './proc.js'

const MODEL = 'svc/voice-en'
const TTS = 'tts@1.0.0'
const SENTENCE = 'The quick brown fox jumps over the lazy dog.'
/** Seconds by which lamejs delays the start and may pad the last frame. */
const ENCODER_SECONDS = 1105 / 16000 + 576 / 16000 * 2

/** Checks that the bytes are exactly whole MP3 frames; returns the seconds of sound. */
function validMp3 (t: Test, bytes: Uint8Array, what: string): number {
  const { frames, rest } = walkFrames(bytes)
  t.ok(frames.length > 0 && rest === 0, `${what}: MP3 frames and nothing else`)
  t.ok(frames.every((f) => f.sampleRate === 16000 && f.mono), `${what}: mono at the voice's rate`)
  return framesSeconds(frames)
}

/** Duration of a WAV file in seconds, computed from its samples. */
function wavSeconds (bytes: Buffer): { seconds: number, rate: number } {
  const rate = bytes.readUInt32LE(24)
  const at = bytes.indexOf('data') + 8
  return { rate, seconds: (bytes.length - at) / 2 / rate }
}

const speech = (body: Record<string, unknown>): { body: object } =>
  ({ body: { model: MODEL, input: SENTENCE, ...body } })

t.test('the main use case of a new user', async (t) => {
  const node = await startNode(t)

  t.test('svc up --json prints the address and the pid of the node', async (t) => {
    const lines = node.child.stdout().trim().split('\n')
    t.equal(lines.length, 1)
    t.strictSame(Object.keys(JSON.parse(lines[0]!) as object), ['url', 'nodeId', 'pid', 'home'])
    t.equal((await ask(node, '/node_id')).json, node.nodeId)
    t.ok(alive(node.pid) && node.pid !== node.child.pid, 'the pid is the node, not its launcher')
    t.equal(node.runners().length, 2, 'one for the voice, one for the guide')
  })

  t.test('the bundled language model answers on the command line and over HTTP', async (t) => {
    const asked = 'what is no_quorum'
    const ran = await svc(['run', 'svc/guide', asked, '--home', node.home])
    t.equal(ran.status, 0)
    t.match(ran.stdout, /no_quorum/)
    const { status, json } = await ask(node, '/v1/chat/completions', {
      body: { model: 'svc/guide', messages: [{ role: 'user', content: asked }] } })
    t.equal(status, 200)
    t.match(json, { choices: [{ message: { content: ran.stdout.trim() }, finish_reason: 'stop' }] })
  })

  t.test('svc say -o writes an MP3 whose duration fits the samples', async (t) => {
    const file = join(folder(t), 'out.mp3')
    const { status, stdout } = await svc(['say', SENTENCE, '-o', file, '--home', node.home])
    t.equal(status, 0)
    t.equal(stdout, '', 'nothing but data on stdout')
    const seconds = validMp3(t, readFileSync(file), 'say -o')
    const wav = (await ask(node, '/v1/audio/speech', speech({ response_format: 'wav' }))).bytes
    const samples = wavSeconds(wav)
    t.equal(samples.rate, 16000)
    t.ok(Math.abs(seconds - samples.seconds) <= ENCODER_SECONDS,
      `${seconds} s of MP3, ${samples.seconds} s of samples`)
    t.ok(seconds > 1 && seconds < 10, 'about as long as the sentence')
  })

  t.test('every framing carries the same sound', async (t) => {
    const payload = { model: MODEL, text: SENTENCE, seed: 7 }
    const framed = await streamed(node, TTS, payload)
    checkFrames(t, framed.frames)
    validMp3(t, framed.bytes, 'frames')
    const raw = await ask(node, '/v1/capabilities/stream', { body: call(node, TTS, payload),
      headers: { accept: 'audio/mpeg' } })
    t.equal(raw.headers['content-type'], 'audio/mpeg')
    t.match(raw.headers['x-svc-command-id'], /^[0-9a-f-]{36}$/)
    t.ok(raw.bytes.equals(framed.bytes), 'raw bytes are the frames\' bytes')
    const events = await ask(node, '/v1/capabilities/stream', { body: call(node, TTS, payload),
      headers: { accept: 'text/event-stream' } })
    t.ok(eventBytes(events.text).equals(framed.bytes), 'so are the events\'')
    const session = await overSession(node, call(node, TTS, payload, { call_id: 'one' }))
    checkFrames(t, session)
    t.ok(Buffer.concat(session.flatMap((f) => f.media ?? [])).equals(framed.bytes), 'so are the session\'s')
  })

  t.test('the status is held until the first byte', async (t) => {
    const raw = await open(node, '/v1/capabilities/stream', {
      body: call(node, TTS, { model: 'svc/none', text: 'x' }), headers: { accept: 'audio/mpeg' }
    })
    t.equal(raw.statusCode, 404)
    t.match(JSON.parse((await readBody(raw)).toString()), { error: { reason: 'no_instance' } })
  })

  t.test('/v1/audio/speech in every format', async (t) => {
    const mp3 = await ask(node, '/v1/audio/speech', speech({}))
    t.equal(mp3.headers['content-type'], 'audio/mpeg')
    const seconds = validMp3(t, mp3.bytes, 'mp3')
    const wav = await ask(node, '/v1/audio/speech', speech({ response_format: 'wav' }))
    t.equal(wav.bytes.subarray(0, 4).toString(), 'RIFF')
    t.ok(Math.abs(wavSeconds(wav.bytes).seconds - seconds) <= ENCODER_SECONDS)
    const pcm = await ask(node, '/v1/audio/speech', speech({ response_format: 'pcm' }))
    t.ok(Math.abs(pcm.bytes.length / 2 / 16000 - seconds) <= ENCODER_SECONDS)
    const sse = await ask(node, '/v1/audio/speech', speech({ stream_format: 'sse' }))
    const events = eventsOf(sse.text) as { type: string, audio?: string }[]
    t.equal(events.at(-1)?.type, 'speech.audio.done')
    const deltas = events.slice(0, -1)
    t.ok(deltas.every((e) => e.type === 'speech.audio.delta'))
    t.ok(Buffer.concat(deltas.map((e) => Buffer.from(e.audio!, 'base64'))).equals(mp3.bytes))
    for (const [format, type, head] of [
      ['opus', 'audio/ogg; codecs=opus', 'OggS'], ['flac', 'audio/flac', 'fLaC'],
      ['aac', 'audio/aac', '\xff\xf1']
    ] as const) {
      const answer = await ask(node, '/v1/audio/speech', speech({ response_format: format }))
      t.equal(answer.headers['content-type'], type)
      t.equal(answer.bytes.toString('latin1', 0, head.length), head)
    }
    const named = speech({ model: 'tts-1', voice: 'alloy', response_format: 'pcm' })
    const { status, headers } = await ask(node, '/v1/audio/speech', named)
    t.match([status, headers['x-svc-model'], headers['x-svc-voice']], [200, MODEL, 'rms'])
  })

  t.test('two svc say at once', async (t) => {
    const files = ['a.mp3', 'b.mp3'].map((name) => join(folder(t), name))
    const ended = await Promise.all(files.map((file) => svc(['say', SENTENCE, '-o', file, '--home',
      node.home])))
    t.strictSame(ended.map((e) => e.status), [0, 0])
    const [a, b] = files.map((file) => readFileSync(file))
    t.ok(a!.equals(b!), 'both hear the same')
  })

  t.test('unusual texts are spoken or refused with the reason', async (t) => {
    const spoken: Record<string, string> = {
      mixed: 'Hello, 今日は, bonjour, привет and goodbye.',
      emoji: 'I am happy 😀🎉 today.',
      numbers: '3.14 %, $5.20, 12:30, http://example.com/a?b=c',
      control: 'one\u0000two\u0007\u2028three',
      'one word without an end': 'a'.repeat(3000)
    }
    for (const [name, text] of Object.entries(spoken)) {
      const heard = await streamed(node, TTS, { model: MODEL, text })
      t.equal(heard.last?.header.kind, 'completed', `${name}: ${JSON.stringify(heard.last?.header.error)}`)
      validMp3(t, heard.bytes, name)
    }
    const either: Record<string, string> = {
      punctuation: '... !!! ??? -- ,;:', 'emoji alone': '😀🎉', 'right to left': 'שלום עולם',
      spaces: '   \n\t ',
      'lone surrogate': '\ud83d', 'combining marks': 'e\u0301\u0301\u0301'
    }
    for (const [name, text] of Object.entries(either)) {
      const answer = await ask(node, '/v1/capabilities/stream', {
        body: call(node, TTS, { model: MODEL, text }), headers: { accept: 'audio/mpeg' } })
      if (answer.status === 200) validMp3(t, answer.bytes, name)
      else {
        t.equal(answer.status, 400, `${name}: ${answer.text.slice(0, 200)}`)
        t.ok((refusal(answer)?.message.length ?? 0) > 20, `${name}: says why: ${refusal(answer)?.message}`)
      }
    }
  })

  t.test('100,000 characters: memory stays bounded and cancel works', async (t) => {
    const text = `${SENTENCE} `.repeat(2300).slice(0, 100_000)
    const runner = await runnerOf(node, MODEL)
    const before = { node: rss(node.pid), runner: rss(runner) }
    const opened = await stream(node, TTS, { model: MODEL, text }, { extra: { call_id: 'long' } })
    let bytes = 0
    let most = { node: 0, runner: 0 }
    let cancelled = false
    let last: Frame | undefined
    for await (const frame of opened.frames) {
      bytes += frame.media?.byteLength ?? 0
      last = frame
      most = { node: Math.max(most.node, rss(node.pid)), runner: Math.max(most.runner, rss(runner)) }
      if (bytes > 300_000 && !cancelled) {
        cancelled = true
        t.match((await ask(node, '/v1/capabilities/stream/cancel', { body: { call_id: 'long' } })).json,
          { cancelled: true })
      }
    }
    t.equal(last?.header.kind, 'cancelled')
    const grown = { node: most.node - before.node, runner: most.runner - before.runner }
    t.ok(grown.node < 100e6 && grown.runner < 300e6, `grown by ${JSON.stringify(grown)}`)
    await until('the runner is free again', async () => {
      const { runners } = (await ask(node, '/state')).json as { runners: Record<string, object> }
      return Object.values(runners).every((status) => 'RunnerReady' in status)
    })
    t.equal((await streamed(node, TTS, { model: MODEL, text: 'Still there.' })).last?.header.kind,
      'completed')
  })

  t.test('an interrupted client leaves no partial file and a healthy node', async (t) => {
    const where = folder(t)
    const file = join(where, 'long.mp3')
    const child = run(process.execPath, [cli, 'say', `${SENTENCE} `.repeat(500), '-o', file, '--home',
      node.home])
    await until('say writes', () => readdirSync(where).length > 0)
    child.process.kill('SIGINT')
    t.equal(await child.ended, 130)
    t.notOk(existsSync(file), 'the unfinished file is not left under its name')
  })
})

/** Checks the sequence numbers, kinds and payloads of a spoken stream's frames. */
function checkFrames (t: Test, frames: readonly Frame[]): void {
  const kinds = frames.map((f) => f.header.kind)
  t.strictSame(kinds, ['started', ...Array<string>(frames.length - 2).fill('chunk'), 'completed'])
  t.strictSame(frames.map((f) => f.header.sequence), frames.map((_, i) => i))
  const chunks = frames.slice(1, -1).map((f) => f.header.payload as { chunk_index: number,
    is_partial: boolean, model: string, sample_rate: number })
  t.strictSame(chunks.map((c) => c.chunk_index), chunks.map((_, i) => i), 'chunk_index has no gaps')
  t.strictSame(chunks.map((c) => c.is_partial), chunks.map((_, i) => i < chunks.length - 1),
    'the last chunk says so')
  t.ok(chunks.every((c) => c.model === MODEL && c.sample_rate === 16000))
  t.ok(frames.slice(1, -1).every((f) => (f.media?.byteLength ?? 0) > 0), 'no chunk is without bytes')
  let at = 0
  for (const { header: { media } } of frames.slice(1, -1)) {
    t.ok(Math.abs((media?.timestamp_seconds ?? -1) - at) < 0.01, 'timestamps follow the durations')
    at = (media?.timestamp_seconds ?? 0) + (media?.duration_seconds ?? 0)
  }
}

const eventsOf = (text: string): unknown[] => text.split('\n').filter((line) => line.startsWith('data: '))
  .map((line) => JSON.parse(line.slice(6)) as unknown)

const eventBytes = (text: string): Buffer =>
  Buffer.concat((eventsOf(text) as { media: { data: string } | null }[])
    .map(({ media }) => Buffer.from(media?.data ?? '', 'base64')))

/** Makes one call over the WebSocket; returns the frames up to the terminal frame. */
async function overSession (node: TestNode, request: object): Promise<Frame[]> {
  const ws = new WebSocket(`${node.url.replace('http', 'ws')}/v1/capabilities/session`,
    { headers: { authorization: `Bearer ${node.token}` } })
  await new Promise((resolve, reject) => { ws.once('open', resolve); ws.once('error', reject) })
  const frames: Frame[] = []
  const done = new Promise<void>((resolve) => {
    ws.on('message', (data: Buffer) => {
      const frame = decodeFrame(data) as unknown as Frame
      frames.push(frame)
      if (frame.header.kind === 'completed' || frame.header.kind === 'failed') resolve()
    })
  })
  ws.send(encodeFrame({ header: { kind: 'call', ...request }, media: null }))
  await done
  ws.close()
  return frames
}

/** Pid of the process that runs a model on this node. */
async function runnerOf (node: TestNode, modelId: string): Promise<number> {
  const { supervisorRunners } = (await ask(node, '/v1/diagnostics/node')).json as
    { supervisorRunners: { modelId: string, pid: number }[] }
  return supervisorRunners.find((runner) => runner.modelId === modelId)!.pid
}
