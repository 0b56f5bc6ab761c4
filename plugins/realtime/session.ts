import { randomUUID } from 'node:crypto'
import { ByteQueue } from '../../kernel/api/byte-queue.js'
import { badField, kernelError, parseJson, type Caller, type RouteSocket } from '../../kernel/index.js'
import { rateOf, toPcm } from './audio.js'
import {
  clientEvents, type ClientEvent, type EventType, type ItemInput, type ResponseInput
} from './client-events.js'
import { Conversation, itemOf, soundItem, type Item } from './conversation.js'
import { EventSocket } from './event-socket.js'
import { Hearing, SoundQueue, type Turn, type TurnEvents } from './hearing.js'
import { callOf, errorFields, patiently, pluginOff } from './problems.js'
import { Response, type AnswerParts } from './response.js'
import { defaultSession, shownSession, updated, type SessionConfig } from './session-config.js'
import type { Listening, SttEvent, SttSegment } from '../capabilities-stt/service.js'

export interface Parts extends AnswerParts {
  /** Throws `invalid_request` unless the name of the address is a language model's. */
  checkModel: (name: string) => void
  stt: () => Listening | undefined
  /** The model for the name in `transcription`. Throws `no_instance`. */
  sttModel: (listening: Listening, name: string | undefined) => string
  /** Null, or a sentence that names the invalid field. */
  problemOf: (type: EventType, event: unknown) => string | null
}

/** Bytes of sound that may wait to be committed, and the least that can be committed, in ms. */
const BUFFER_BYTES = 10 * 1024 * 1024
const LEAST_MS = 100
/** Responses that may run at the same time; at most one of them in the conversation. */
const MOST_RESPONSES = 4
/** Levels of lists and objects in an event; code that walks deeper ones could overflow the stack. */
const MOST_LEVELS = 64
const isDeeper = (value: unknown, levels: number): boolean => typeof value === 'object' && value !== null &&
  (levels === 0 || Object.values(value).some((one) => isDeeper(one, levels - 1)))

type Handlers = { [T in EventType]: (event: ClientEvent<T>) => void }

/** One client of `/v1/realtime`: its configuration, conversation, sound and answers. */
export class RealtimeSession {
  readonly #parts: Parts
  readonly #caller: Caller
  readonly #socket: EventSocket
  readonly #conversation: Conversation
  readonly #ended = new AbortController()
  readonly #responses = new Set<Response>()
  #session: SessionConfig
  #hearing: Hearing | undefined
  /** Ms of sound that earlier values of `hearing` got. */
  #heardMs = 0
  #buffer = new ByteQueue()

  constructor (ws: RouteSocket, caller: Caller, session: SessionConfig, parts: Parts) {
    this.#parts = parts
    this.#caller = caller
    this.#session = session
    this.#socket = new EventSocket(ws, parts.clock, (data) => { this.#receive(data) })
    ws.on('close', () => {
      this.#ended.abort(kernelError('cancelled'))
      this.#hearing?.abort()
      for (const response of this.#responses) response.cancel('client_cancelled')
    })
    this.#send('session.created', { session: shownSession(session) })
    this.#conversation = new Conversation((type, fields) => { this.#send(type, fields) })
    if (session.type !== 'realtime') return
    try { parts.checkModel(session.model) } catch (error) { this.#error(error) }
  }

  /** Closes with a code of RFC 6455. */
  close (code: number, reason: string): void { this.#socket.close(code, reason) }

  #send (type: string, fields: object): void { this.#socket.send(type, fields) }

  #error (error: unknown, eventId: string | null = null): void {
    this.#send('error', { error: { ...errorFields(error, this.#parts.log), event_id: eventId } })
  }

  #receive (data: string): void {
    const event = parseJson(data) as { type?: unknown, event_id?: unknown } | null | undefined
    try {
      if (event === undefined) throw kernelError('invalid_request', 'The message is not JSON.')
      if (isDeeper(event, MOST_LEVELS)) throw badField('event', `has more than ${MOST_LEVELS} levels`)
      const type = typeof event?.type === 'string' ? event.type : ''
      if (!Object.hasOwn(clientEvents, type)) throw badField('type', `"${type.slice(0, 64)}" is unknown`)
      const problem = this.#parts.problemOf(type as EventType, event)
      if (problem !== null) throw kernelError('invalid_request', problem, { param: problem.split(' ')[0] })
      ;(this.#handlers[type as EventType] as (event: unknown) => void)(event)
    } catch (error) {
      this.#error(error, typeof event?.event_id === 'string' ? event.event_id : null)
    }
  }

  readonly #handlers: Handlers = {
    'session.update': ({ session }) => { this.#update(session) },
    'input_audio_buffer.append': ({ audio }) => { this.#append(this.#pcmOf(audio, 'audio')) },
    'input_audio_buffer.commit': () => { this.#commit() },
    'input_audio_buffer.clear': () => {
      this.#buffer = new ByteQueue()
      this.#endHearing((hearing) => { hearing.abort() })
      this.#send('input_audio_buffer.cleared', {})
    },
    'output_audio_buffer.clear': () => {
      const response = this.#active
      response?.cancel('client_cancelled')
      this.#send('output_audio_buffer.cleared', { response_id: response?.id ?? '' })
    },
    'conversation.item.create': ({ item, previous_item_id: previous }) => { this.#create(item, previous) },
    'conversation.item.retrieve': ({ item_id: id }) => {
      this.#send('conversation.item.retrieved', { item: this.#conversation.find(id) })
    },
    'conversation.item.delete': ({ item_id: id }) => { this.#conversation.remove(id) },
    'conversation.item.truncate': ({ item_id: id, audio_end_ms: ms, content_index: index }) => {
      // The end of an open answer is not known yet.
      if (this.#conversation.find(id).status === 'in_progress') this.#active?.cancel('client_cancelled')
      this.#conversation.truncate(id, ms)
      this.#send('conversation.item.truncated', { item_id: id, audio_end_ms: ms, content_index: index })
    },
    'response.create': ({ response }) => { this.#respond(response) },
    'response.cancel': ({ response_id: id }) => {
      const response = id === undefined ? this.#active : [...this.#responses].find((one) => one.id === id)
      if (response === undefined) throw badField('response_id', 'names no response that is active')
      response.cancel('client_cancelled')
    }
  }

  get #active (): Response | undefined {
    return [...this.#responses].find(({ ended, isOutside }) => !ended && !isOutside)
  }

  #update (changes: ClientEvent<'session.update'>['session']): void {
    const { model, id, type } = this.#session
    const before = changes.type === type ? this.#session : { ...defaultSession(model), id }
    this.#session = updated(before, changes)
    // A change of the input takes effect with the next sound; an open turn is still heard.
    if (changes.audio?.input !== undefined) this.#endHearing((hearing) => { hearing.commit() })
    this.#send('session.updated', { session: shownSession(this.#session) })
  }

  #endHearing (end: (hearing: Hearing) => void): void {
    const hearing = this.#hearing
    if (hearing === undefined) return
    this.#heardMs = hearing.endMs
    this.#hearing = undefined
    end(hearing)
  }

  get #bytesPerMs (): number { return rateOf(this.#session.audio.input.format.type) * 2 / 1000 }

  /** Decodes sound in the input's format to 16-bit PCM. Throws `invalid_request` naming `path`. */
  #pcmOf (audio: string, path: string): Uint8Array {
    const bytes = Buffer.from(audio, 'base64')
    const length = audio.replace(/={1,2}$/, '').length * 3 / 4
    if (bytes.byteLength < Math.floor(length)) throw badField(path, 'is not base64')
    const format = this.#session.audio.input.format.type
    if (format === 'audio/pcm' && bytes.length % 2 > 0) throw badField(path, 'has half a 16-bit sample')
    return toPcm(format, bytes)
  }

  #append (pcm: Uint8Array): void {
    if (this.#session.audio.input.turn_detection !== null) {
      this.#hearing ??= this.#hear()
      if (!this.#hearing.append(pcm)) throw badField('audio', 'comes faster than it can be transcribed')
    } else {
      if (this.#buffer.length + pcm.byteLength > BUFFER_BYTES) {
        throw badField('audio', `makes the buffer larger than ${BUFFER_BYTES} bytes; commit or clear it`)
      }
      this.#buffer.push(pcm)
    }
  }

  #commit (): void {
    if (this.#hearing !== undefined) {
      this.#endHearing((hearing) => { hearing.commit() })
      return
    }
    if (this.#buffer.length < LEAST_MS * this.#bytesPerMs) throw commitEmpty()
    const item = soundItem()
    this.#committed(item)
    this.#transcribe(item, 0, this.#buffer.take(this.#buffer.length))
  }

  #committed (item: Item): void {
    const previous = this.#conversation.items.at(-1)?.id ?? null
    this.#send('input_audio_buffer.committed', { item_id: item.id, previous_item_id: previous })
    this.#conversation.add(item)
    this.#conversation.await(item)
  }

  #create (given: ItemInput, previous?: string | null): void {
    const item = itemOf(given)
    const sounds = (given.content ?? []).map(({ audio, transcript }, index) =>
      audio === undefined || transcript != null ? null : this.#pcmOf(audio, `item.content.${index}.audio`))
    this.#conversation.add(item, previous)
    for (const [index, pcm] of sounds.entries()) if (pcm !== null) this.#transcribe(item, index, pcm)
  }

  /** Transcribes the sound of a part of an item, and attaches the text. */
  #transcribe (item: Item, index: number, pcm: Uint8Array): void {
    const { signal } = this.#ended
    this.#conversation.await(item)
    patiently(this.#parts.clock, signal, async () => {
      const segments: SttSegment[] = []
      const input = new SoundQueue()
      input.push(pcm)
      input.end()
      for await (const event of this.#listen(input, signal, {})) {
        if (event.event === 'segment') segments.push(event)
      }
      return segments
    }).then((segments) => {
      this.#heard(item, index, segments, pcm.byteLength / this.#bytesPerMs / 1000)
    }).catch((error: unknown) => { this.#unheard(item, index, error) })
  }

  #heard (item: Item, index: number, segments: readonly SttSegment[], seconds: number): void {
    const transcript = segments.map(({ text }) => text).join('').trim()
    item.content![index]!.transcript = transcript
    this.#conversation.update(item)
    this.#conversation.settle(item)
    if (!this.#tellsText) return
    this.#send('conversation.item.input_audio_transcription.completed', {
      item_id: item.id, content_index: index, transcript, usage: { type: 'duration', seconds },
      logprobs: this.#wantsLogprobs ? segments.flatMap(({ logprobs }) => logprobs ?? []) : null
    })
  }

  #unheard (item: Item, index: number, error: unknown): void {
    this.#conversation.settle(item)
    if (this.#ended.signal.aborted) return
    this.#send('conversation.item.input_audio_transcription.failed',
      { item_id: item.id, content_index: index, error: errorFields(error, this.#parts.log) })
    // Without `transcription`, clients do not expect the event above.
    if (!this.#tellsText) this.#error(error)
  }

  get #tellsText (): boolean {
    return this.#session.type === 'transcription' || this.#session.audio.input.transcription !== null
  }

  get #wantsLogprobs (): boolean {
    return this.#session.include?.includes('item.input_audio_transcription.logprobs') === true
  }

  #listen (
    input: AsyncIterable<Uint8Array>, signal: AbortSignal, live: { live?: boolean, turn?: object }
  ): AsyncIterable<SttEvent> {
    const listening = this.#parts.stt()
    if (listening === undefined) throw pluginOff('Speech to text', 'capabilities-stt')
    const { transcription, format } = this.#session.audio.input
    const { model: name, language, prompt } = transcription ?? {}
    const request = {
      model: this.#parts.sttModel(listening, name), format: 'pcm' as const, sample_rate: rateOf(format.type),
      ...live, ...language === undefined ? {} : { language }, ...prompt === undefined ? {} : { prompt },
      ...this.#wantsLogprobs ? { logprobs: true } : {}
    }
    return listening.transcribe(request, input, callOf(this.#caller, signal, randomUUID()))
  }

  /** Starts to find turns in the sound that follows. */
  #hear (): Hearing {
    const { threshold, prefix_padding_ms, silence_duration_ms } = this.#session.audio.input.turn_detection!
    const turn = { threshold, prefix_padding_ms, silence_duration_ms }
    return new Hearing({
      clock: this.#parts.clock, events: this.#turnEvents, bytesPerMs: this.#bytesPerMs,
      startMs: this.#heardMs,
      listen: (input, signal) => this.#listen(input, signal, { live: true, turn })
    })
  }

  readonly #turnEvents: TurnEvents = {
    started: ({ item, startMs }) => {
      this.#send('input_audio_buffer.speech_started', { item_id: item.id, audio_start_ms: startMs })
      const interrupts = this.#session.audio.input.turn_detection?.interrupt_response === true
      if (interrupts) this.#active?.cancel('turn_detected')
    },
    delta: ({ item: { id } }, delta) => {
      if (!this.#tellsText) return
      this.#send('conversation.item.input_audio_transcription.delta',
        { item_id: id, content_index: 0, delta })
    },
    stopped: ({ item }, ms) => {
      this.#send('input_audio_buffer.speech_stopped', { item_id: item.id, audio_end_ms: ms })
      this.#committed(item)
    },
    heard: (turn) => { this.#turnHeard(turn) },
    silent: () => { this.#error(commitEmpty()) },
    failed: (turn, error) => {
      if (turn?.end === undefined) this.#error(error)
      else this.#unheard(turn.item, 0, error)
    }
  }

  #turnHeard ({ item, startMs, end, segments }: Turn): void {
    const { ms, atMs } = end!
    this.#heard(item, 0, segments, (ms - startMs) / 1000)
    const { type, audio: { input: { turn_detection: detection } } } = this.#session
    const isEmpty = segments.every(({ text }) => text.trim() === '')
    const answers = type === 'realtime' && detection?.create_response === true && this.#active === undefined
    if (isEmpty || !answers) return
    const endMs = atMs - detection.silence_duration_ms
    this.#respond({}, { endMs, heardMs: this.#parts.clock.mono() })
  }

  #respond (given: ResponseInput = {}, speech?: { endMs: number, heardMs: number }): void {
    if (this.#session.type !== 'realtime') throw badField('type', 'needs a session of type realtime')
    const isOutside = given.conversation === 'none'
    if (!isOutside && this.#active !== undefined) {
      throw kernelError('invalid_request',
        'The conversation has an active response already; wait for response.done, or send response.cancel.',
        { code: 'conversation_already_has_active_response' })
    }
    if (this.#responses.size >= MOST_RESPONSES) {
      throw kernelError('overloaded', `${MOST_RESPONSES} responses are active, the limit of a session.`)
    }
    const items = given.input?.map((one, index) => one.type === 'item_reference'
      ? this.#conversation.find(one.id ?? '') : itemOf(one, `response.input.${index}`))
    const response = new Response(this.#parts, {
      caller: this.#caller, config: updated(this.#session, given), speech, metadata: given.metadata ?? null,
      socket: this.#socket, conversation: this.#conversation, isOutside, items
    })
    this.#responses.add(response)
    void response.run().finally(() => { this.#responses.delete(response) })
  }
}

const commitEmpty = (): Error => kernelError('invalid_request',
  `The input buffer has less than ${LEAST_MS} ms of sound, or no speech: nothing was committed.`)
