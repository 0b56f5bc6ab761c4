/**
 * Conversations by voice with OpenAI's own clients, against SmolLM2, the bundled voice and Whisper base,
 * whose graphs the part `stt` makes. `npm run test:real -- realtime`.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { Resampler } from '../../plugins/runners/onnx/resample.js'
import { ask } from '../node/http.js'
import { startNode, until } from '../node/kit.js'
import { pullAndPlace } from './weights-kit.js'
import { folderOf, withoutModels } from './weights.js'
import type OpenAI from 'openai'
import type { OpenAIRealtimeWS } from 'openai/realtime/ws'

/** The parts of `@openai/agents/realtime` that are used here; the package is only in test/clients. */
interface Agents {
  RealtimeAgent: new (options: object) => object
  OpenAIRealtimeWebSocket: new (options: object) => object
  RealtimeSession: new (agent: object, options: object) => {
    on (event: string, fn: (value: { type: string, data: Uint8Array }) => void): void
    connect (options: object): Promise<void>
    sendMessage (text: string): void
    sendAudio (bytes: ArrayBuffer): void
    readonly history: readonly unknown[]
    close (): void
  }
}

const whisper = process.env['SVC_TEST_WHISPER'] ?? `${folderOf('whisper')}-onnx`
const skip = existsSync(whisper) ? withoutModels(['smollm2']) : 'run the part stt first'
const require = createRequire(new URL('../clients/package.json', import.meta.url))
const load = async <T>(name: string): Promise<T> =>
  await import(pathToFileURL(require.resolve(name)).href) as T
const VOICE_RATE = 16_000
/** Bytes of 100 ms of sound. */
const PIECE = 4800

type Client = InstanceType<typeof OpenAI>
type Realtime = new (props: { model: string }, client: Client) => OpenAIRealtimeWS

/** A question as sound at 24 kHz, with silence around it. */
async function question (client: Client, input: string): Promise<Buffer> {
  const answer = await client.audio.speech.create(
    { model: 'tts-1', voice: 'alloy', input, response_format: 'pcm' })
  const resampler = new Resampler(VOICE_RATE, 24_000)
  const samples = resampler.push(Float32Array.from(new Int16Array(await answer.arrayBuffer())))
  return Buffer.concat([Buffer.alloc(PIECE * 3), Buffer.from(Int16Array.from(samples).buffer),
    Buffer.alloc(PIECE * 12)])
}

/** Sends sound at the pace of speech. */
async function say (sound: Buffer, send: (piece: Buffer) => void): Promise<void> {
  for (let at = 0; at < sound.byteLength; at += PIECE) {
    send(sound.subarray(at, at + PIECE))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function placed (t: Test) {
  const node = await startNode(t, { config: {
    cluster: { discovery: false }, api: { tls: 'self' }, model_store: { hub: { enabled: false } },
    plugins: { placement: { autoplace: ['svc/voice-en'] }, runners: { threads: 1 } }
  } })
  await pullAndPlace(t, node, folderOf('smollm2'), 'real/smollm2', ['--ctx', '2048'])
  await pullAndPlace(t, node, whisper, 'real/whisper')
  return node
}

t.test('conversations by voice', { skip, timeout: 600_000 }, async (t) => {
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
  const node = await placed(t)
  const baseURL = `${node.url.replace('http:', 'https:')}/v1`
  const { default: Api } = await load<{ default: typeof OpenAI }>('openai')
  const client = new Api({ apiKey: 'none', baseURL })
  const sound = await question(client, 'What is the capital of France?')

  const long = { timeout: 180_000 }
  await t.test('openai: a spoken answer, also after the listener was killed', long, async (t) => {
    const { OpenAIRealtimeWS: Socket } = await load<{ OpenAIRealtimeWS: Realtime }>('openai/realtime/ws')
    const socket = new Socket({ model: 'gpt-realtime' }, client)
    const events: { type: string, transcript?: string, response?: { status?: string } }[] = []
    socket.on('event', (event) => { events.push(event as never) })
    socket.on('error', (error) => { t.fail(error.message) })
    await until('the session', async () => events.length > 0)
    socket.send({ type: 'session.update', session: { type: 'realtime', max_output_tokens: 40,
      audio: { input: { transcription: { model: 'whisper-1' } } } } })
    const send = (piece: Buffer): void => {
      socket.send({ type: 'input_audio_buffer.append', audio: piece.toString('base64') })
    }
    const done = () => events.filter(({ type }) => type === 'response.done')
    await say(sound, send)
    await until('an answer', async () => done().length === 1)
    const { json } = await ask(node, '/v1/diagnostics/node')
    const runners = (json as { supervisorRunners: { modelId: string, pid: number }[] }).supervisorRunners
    const listener = runners.find(({ modelId }) => modelId === 'real/whisper')!
    await say(sound.subarray(0, PIECE * 9), send)
    process.kill(listener.pid, 'SIGKILL')
    await say(sound.subarray(PIECE * 9), send)
    await until('another answer', async () => done().length === 2)
    socket.close()
    t.same(done().map(({ response }) => response?.status), ['completed', 'completed'])
    const heard = events.filter(({ type }) => type.endsWith('input_audio_transcription.completed'))
    t.equal(heard.length, 2)
    for (const { transcript } of heard) t.match(transcript, /capital of France/i)
    const first = (name: string): number => events.findIndex(({ type }) => type === name)
    t.ok(first('response.output_audio.delta') < first('response.output_audio_transcript.done'))
  })

  await t.test('@openai/agents: a key for a page, an interruption', long, async (t) => {
    const agents = await load<Agents>('@openai/agents/realtime')
    const { value } = await client.realtime.clientSecrets.create({ session: { type: 'realtime' } })
    const url = `${baseURL.replace('https', 'wss')}/realtime?model=gpt-realtime`
    const agent = new agents.RealtimeAgent({ name: 'Helper', instructions: 'Tell long stories.' })
    const session = new agents.RealtimeSession(agent,
      { transport: new agents.OpenAIRealtimeWebSocket({ url }), model: 'gpt-realtime' })
    let [bytes, interruptions, answers] = [0, 0, 0]
    session.on('error', (error) => { t.fail(JSON.stringify(error)) })
    session.on('audio', ({ data }) => { bytes += data.byteLength })
    session.on('audio_interrupted', () => { interruptions++ })
    session.on('transport_event', ({ type }) => { if (type === 'response.done') answers++ })
    await session.connect({ apiKey: value })
    session.sendMessage('Tell me about the sea.')
    await until('sound', async () => bytes > 0)
    await say(sound, (piece) => { session.sendAudio(new Uint8Array(piece).buffer) })
    await until('two answers', async () => answers === 2)
    session.close()
    t.ok(interruptions > 0)
    t.match(JSON.stringify(session.history), /capital of France/i)
  })
})
