import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import type { Socket } from 'node:net'
import { kernelError, type Caller, type CapabilityCall, type Logger } from '../../kernel/index.js'
import { encodeEvent, fieldOf, isWithin, ProtocolError, readEvents, type Data } from './events.js'
import { describe, findVoice, type Programs } from './programs.js'
import type { Speech } from '../capabilities-tts/service.js'

/** A silent connection is closed after this time in ms. */
const IDLE_MS = 10 * 60 * 1000
/** Maximum characters of a text to speak. */
const TEXT = 100_000
const SENTENCES = /^.*(?:[.!?]\s|[\n。！？])/s
/** The caller for all peers, since they have no credentials. Its only authority is to use speech. */
const CALLER: Caller = { id: 'wyoming', mode: 'direct', authorities: new Set(['invoke']) }
const NONE = { async * [Symbol.asyncIterator] (): AsyncGenerator<never> {} }

export interface WyomingParts extends Programs { speech: Speech, log: Logger }

/** A text to speak: `length` counts what arrived, `text` waits; `sounds` after the first sound. */
interface Reading { voice: unknown, text: string, last: string, length: number, sounds: boolean }

const toReading = ({ voice }: Data): Reading => ({ voice, text: '', last: '', length: 0, sounds: false })

/**
 * Answers the events of one peer, one after the other, until it leaves or a request fails: Home Assistant
 * waits for an answer whatever `error` says, but not on a closed connection. Never throws.
 */
export async function serveConnection (socket: Socket, parts: WyomingParts): Promise<void> {
  const gone = new AbortController()
  socket.on('error', () => {})
  socket.once('close', () => { gone.abort(kernelError('cancelled', 'The client disconnected.')) })
  socket.setTimeout(IDLE_MS, () => { socket.destroy() })
  const connection = new Connection(socket, parts, gone.signal)
  try {
    const bytes = socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
    for await (const event of readEvents(bytes)) await connection.answer(event)
  } catch (error) {
    await connection.fail(error).catch(() => {})
  }
  socket.destroySoon()
}

class Connection {
  readonly #socket: Socket
  readonly #parts: WyomingParts
  readonly #signal: AbortSignal
  /** The last `transcribe`, whose sound follows. */
  #asked: Data = {}
  #hearing: { sound: PassThrough, rate: unknown, done: Promise<void> } | undefined
  #reading: Reading | undefined
  #failed = false

  constructor (socket: Socket, parts: WyomingParts, signal: AbortSignal) {
    this.#socket = socket
    this.#parts = parts
    this.#signal = signal
  }

  async answer ({ type, data, payload }: { type: string, data: Data, payload: Buffer }): Promise<void> {
    const reading = this.#reading
    if (type === 'describe') await this.#send('info', describe(this.#parts))
    else if (type === 'ping') await this.#send('pong', { text: fieldOf(data, 'text', '') || null })
    else if (type === 'transcribe') this.#asked = data
    else if (type === 'audio-chunk') await this.#hear(data, payload)
    else if (type === 'audio-stop') await this.#stopHearing()
    else if (type === 'synthesize-start') this.#reading = toReading(data)
    else if (type === 'synthesize-chunk' && reading !== undefined) await this.#read(reading, data, SENTENCES)
    else if (type === 'synthesize-stop' && reading !== undefined) {
      this.#reading = undefined
      await this.#finish(reading, {})
      await this.#send('synthesize-stopped')
    // While a text arrives in pieces, clients also send it whole, for servers that read no pieces.
    } else if (type === 'synthesize' && reading === undefined) await this.#finish(toReading(data), data)
  }

  /** Sends an error. The text of one without a reason may contain paths, so it is logged instead. */
  async fail (error: unknown): Promise<void> {
    if (this.#failed || this.#signal.aborted) return
    this.#failed = true
    const { reason, message } = error as { reason?: unknown, message: string }
    if (typeof reason === 'string') return await this.#send('error', { text: message, code: reason })
    this.#parts.log.error({ err: error }, 'a Wyoming request failed')
    await this.#send('error', { text: 'The request failed.', code: 'internal' })
  }

  async #hear (data: Data, payload: Buffer): Promise<void> {
    if (this.#hearing === undefined) {
      const sound = new PassThrough()
      const done = this.#transcribe(sound, data).finally(() => { sound.destroy() })
      // The connection ends at `audio-stop`: closed while the client sends, it would lose the error.
      done.catch(async (error: unknown) => { await this.fail(error) }).catch(() => {})
      this.#hearing = { sound, rate: data['rate'], done }
    }
    const { sound, rate, done } = this.#hearing
    if (sound.destroyed) return
    if (!isSound(data) || data['rate'] !== rate) {
      await this.fail(new ProtocolError(SOUND))
      sound.destroy()
    } else if (!sound.write(toMono(payload, Number(data['channels'])))) {
      await Promise.race([done.catch(() => {}), once(sound, 'drain', { signal: this.#signal })])
    }
  }

  async #transcribe (sound: PassThrough, format: Data): Promise<void> {
    if (!isSound(format)) throw new ProtocolError(SOUND)
    const { listening } = this.#parts
    const { context } = this.#asked
    const [code = ''] = fieldOf(this.#asked, 'language', '').toLowerCase().split(/[-_]/)
    const name = fieldOf(this.#asked, 'name', '') || (listening.models()[0]?.card.modelId ?? 'whisper-1')
    const request = {
      model: listening.modelFor(name), format: 'pcm', sample_rate: Number(format['rate']),
      ...code === '' ? {} : { language: code }, ...typeof context === 'string' ? { prompt: context } : {}
    } as const
    let [text, language] = ['', code || null]
    await this.#send('transcript-start', { language })
    for await (const event of listening.transcribe(request, sound, this.#call())) {
      if (event.event === 'done') language = event.language
      if (event.event !== 'segment') continue
      text += event.text
      await this.#send('transcript-chunk', { text: event.text })
    }
    await this.#send('transcript', { text: text.trim(), language })
    await this.#send('transcript-stop')
  }

  async #stopHearing (): Promise<void> {
    const hearing = this.#hearing
    this.#hearing = undefined
    if (hearing === undefined) await this.#send('transcript', { text: '' })
    hearing?.sound.end()
    await hearing?.done
    this.#asked = {}
  }

  /** Adds text, and speaks the part of what waits that `ready` matches. */
  async #read (reading: Reading, data: Data, ready: RegExp): Promise<void> {
    const text = fieldOf(data, 'text', '')
    reading.text += text
    reading.length += text.length
    if (reading.length > TEXT) throw new ProtocolError(`The text is longer than ${TEXT} characters.`)
    // The waiting text has no end of a sentence, so only new text and the character before it are searched.
    const added = reading.last + text
    reading.last = added.slice(-1)
    if (!ready.test(added)) return
    const input = ready.exec(reading.text)?.[0] ?? ''
    reading.text = reading.text.slice(input.length)
    if (input.trim() === '') return
    const { speech, runners } = this.#parts
    const voice = findVoice(runners.models('tts'), reading.voice)
    for await (const { media } of speech.speak({ ...voice, input, response_format: 'pcm' }, this.#call())) {
      if (media === undefined || media.bytes.byteLength === 0) continue
      const format = { rate: media.sampleRate, width: 2, channels: 1 }
      if (!reading.sounds) await this.#send('audio-start', format)
      reading.sounds = true
      await this.#send('audio-chunk', format, media.bytes)
    }
  }

  async #finish (reading: Reading, data: Data): Promise<void> {
    await this.#read(reading, data, /.*/s)
    await this.#send('audio-stop')
  }

  #call (): CapabilityCall {
    const id = randomUUID()
    const none = { chunks: NONE, input: NONE, setHeader () {} }
    return { callId: id, commandId: id, caller: CALLER, signal: this.#signal, retry: true, ...none }
  }

  /** Waits for a slow reader, until the connection was idle for too long. */
  async #send (type: string, data?: object, payload?: Uint8Array): Promise<void> {
    this.#signal.throwIfAborted()
    if (this.#socket.write(encodeEvent(type, data, payload))) return
    await once(this.#socket, 'drain', { signal: this.#signal })
  }
}

const SOUND = 'Sound must have 16-bit samples, one rate of 8,000 to 48,000 Hz and 1 to 8 channels.'
const isSound = ({ rate, width, channels }: Data): boolean =>
  width === 2 && isWithin(rate, 8000, 48_000) && isWithin(channels, 1, 8)

/** The mean of the channels of 16-bit samples. */
function toMono (samples: Buffer, channels: number): Buffer {
  if (channels === 1) return samples
  const mono = Buffer.alloc(2 * Math.floor(samples.length / 2 / channels))
  for (let at = 0; at < mono.length; at += 2) {
    let sum = 0
    for (let i = 0; i < channels; i++) sum += samples.readInt16LE(at * channels + 2 * i)
    mono.writeInt16LE(Math.round(sum / channels), at)
  }
  return mono
}
