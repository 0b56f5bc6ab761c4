/** A node with fakes of the three parts, and a client of its WebSocket. */
import { WebSocket } from 'ws'
import {
  EngineError, kernelError, systemClock, TokenService, type CapabilityCall
} from '../../../kernel/index.js'
import {
  fake, startPlugin, type Rig, type StartOptions, type TestContext
} from '../../../kernel/testing/index.js'
import { ListeningService, type Listening, type SttEvent } from '../../capabilities-stt/service.js'
import { SpeechService } from '../../capabilities-tts/service.js'
import { ChatService } from '../../chat/service.js'
import { RunnersService } from '../../runners/service.js'
import realtime from '../index.js'

type Body = Record<string, unknown> & { messages: { role: string, content: unknown }[] }
export type Event = Record<string, unknown> & { type: string }

/** The behaviour of the fakes, which tests replace. */
export interface Script {
  /** Deltas of an answer: text, or a whole chunk. */
  write: (body: Body, signal: AbortSignal) => AsyncIterable<string | object>
  /** Sound of a clause; the fake voice has 12 kHz and 10 ms per character. */
  speak: (text: string, signal: AbortSignal) => AsyncIterable<Uint8Array>
  /** Whether the credential of a creator of client secrets still stands. */
  stands: (callerId: string) => boolean
  listen: (request: Parameters<Listening['transcribe']>[0], input: AsyncIterable<Uint8Array>) =>
  AsyncIterable<SttEvent>
}

export const segment = (text: string, more: object = {}): SttEvent => ({
  event: 'segment', id: 0, start: 0, end: 1, text, tokens: [], temperature: 0, avg_logprob: 0,
  compression_ratio: 1, no_speech_prob: 0, ...more
})

export const VOICE_RATE = 12_000
export const soundOf = (text: string): Uint8Array => new Uint8Array(text.length * VOICE_RATE / 100 * 2)

const script = (): Script => ({
  stands: () => true,
  async * write () { yield * ['Hello there, ', 'friend. ', 'How are you today?'] },
  async * speak (text) { yield soundOf(text) },
  // The first byte of each 100 ms of live sound: 1 begins a turn, 3 is a partial text, 2 ends the turn.
  async * listen ({ live = false }, input) {
    let bytes = 0
    for await (const piece of input) {
      for (let from = 0; from < piece.byteLength; from += 4800) {
        bytes += 4800
        const at = bytes / 48_000
        if (live && piece[from] === 1) yield { event: 'speech_started', at }
        if (live && piece[from] === 3) yield { event: 'partial', text: ' good morning', start: 0 }
        if (!live || piece[from] !== 2) continue
        yield { event: 'speech_stopped', at }
        yield segment(' good morning', { final: true })
      }
    }
    if (!live) yield segment(' good evening')
    yield { event: 'done', language: 'en', duration: bytes / 48_000 }
  }
})

export interface Client {
  send (type: string, fields?: object): void
  /** The next event of this type that was not returned yet. */
  next (type: string): Promise<Event>
  /** All events so far, without ids. */
  events: Event[]
  types (): string[]
  closed: Promise<number>
  socket: WebSocket
}

export interface Bench {
  rig: Rig, url: string, script: Script, bodies: Body[]
  open (path?: string, ...protocols: string[]): Promise<Client>
}

export async function bench (t: TestContext, options: StartOptions = {}): Promise<Bench> {
  const made = script()
  const bodies: Body[] = []
  const without = new Set((options.off ?? []).map(({ manifest }) => manifest.name))
  const fakes = [
    fake(TokenService, { stands: (id) => made.stands(id) }),
    fake(RunnersService, {
      models: () => [{ card: { modelId: 'a/chat' }, ready: true }] as never,
      card: (id) => ({ 'a/chat': { tasks: ['chat'] }, 'a/voice': { tasks: ['speech'] } })[id] as never
    }),
    fake(ListeningService, {
      modelFor: (name) => name === 'whisper-1' ? 'a/stt' : name,
      transcribe: (request, input) => made.listen(request, input as AsyncIterable<Uint8Array>)
    }),
    fake(ChatService, {
      modelOf: (name) => name === 'alias' ? 'a/chat' : name,
      answer: (body, { signal }) => chunks(made, body as never, bodies, signal)
    }),
    fake(SpeechService, { speak: (body, call) => spoken(made, String(body.input), call) })
  ].filter(({ id }) => !without.has(id))
  const rig = await startPlugin(t, realtime, { clock: systemClock, ...options, fakes, off: [] })
  const url = await rig.listen()
  return {
    rig, url, script: made, bodies,
    open: async (path = '?model=a/chat', ...protocols) => {
      const client = connect(`${url.replace('http', 'ws')}/v1/realtime${path}`, protocols)
      await client.next('session.created')
      return client
    }
  }
}

async function * chunks (script: Script, body: Body, bodies: Body[], signal: AbortSignal) {
  bodies.push(structuredClone(body))
  for await (const delta of script.write(body, signal)) {
    signal.throwIfAborted()
    yield typeof delta === 'string' ? { choices: [{ index: 0, delta: { content: delta } }] } : delta as never
  }
  const usage = { prompt_tokens: 7, completion_tokens: 5 }
  yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' as const }], usage }
}

async function * spoken (script: Script, text: string, { signal }: CapabilityCall) {
  for await (const bytes of script.speak(text, signal)) {
    yield { payload: {}, media: { bytes, mediaType: 'audio/pcm', codec: 'pcm', sampleRate: VOICE_RATE,
      channels: 1, timestampSeconds: 0, durationSeconds: 0 } }
  }
}

export function connect (url: string, protocols: string[] = [], headers = {}): Client {
  const socket = new WebSocket(url, protocols, { headers })
  const events: Event[] = []
  let read = 0
  let wake = (): void => {}
  let refused: Error | undefined
  socket.on('message', (data: Buffer) => {
    events.push(JSON.parse(data.toString()) as Event)
    wake()
  })
  socket.on('error', (error) => { refused = error; wake() })
  const closed = new Promise<number>((resolve) => { socket.on('close', (code) => { wake(); resolve(code) }) })
  return {
    socket, events, closed,
    types: () => events.map(({ type }) => type),
    send: (type, fields = {}) => { socket.send(JSON.stringify({ type, ...fields })) },
    async next (type) {
      for (;;) {
        const at = events.findIndex((event, index) => index >= read && event.type === type)
        if (at >= 0) {
          read = at + 1
          return events[at]!
        }
        if (refused !== undefined) throw refused
        await new Promise<void>((resolve) => { wake = resolve })
      }
    }
  }
}

/** Sound of a client: `ms` of PCM at 24 kHz, with a mark for the fake as its first byte. */
export const sound = (ms: number, mark = 0): string => {
  const bytes = Buffer.alloc(ms * 48)
  bytes[0] = mark
  return bytes.toString('base64')
}

export const lost = (): Error => kernelError('instance_lost')
export const tooLong = (): Error => new EngineError('context_length_exceeded', 'too long')
