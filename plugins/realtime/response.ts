import { randomUUID } from 'node:crypto'
import { kernelError, raceAbort } from '../../kernel/index.js'
import { ClauseCutter, heardText } from './clauses.js'
import { SoundEncoder, rateOf } from './audio.js'
import { callOf, errorFields, patiently, pluginOff } from './problems.js'
import { messagesOf } from './conversation.js'
import { newId } from './ids.js'
import type { Caller, CapabilityCall, Clock, Commands, Logger, Trace, Tracers } from '../../kernel/index.js'
import type { Speech } from '../capabilities-tts/service.js'
import type { Chat, InputMessage } from '../chat/service.js'
import type { CallDelta, Finish, Usage } from '../runners/language/chunks.js'
import type { SpokenClause } from './clauses.js'
import type { Content, Conversation, Item } from './conversation.js'
import type { EventSocket } from './event-socket.js'
import type { SessionConfig } from './session-config.js'

/** The node's parts that answers use; a missing part is an error when it is needed. */
export interface AnswerParts {
  clock: Clock
  commands: Commands
  tracers: Tracers
  log: Logger
  chat: () => Chat | undefined
  speech: () => Speech | undefined
  /** The language model for a name, and the name of the speech model. Throws `no_instance`. */
  chatModel: (name: string) => string
  speechModel: string
}

export interface ResponseOptions {
  caller: Caller
  config: Omit<SessionConfig, 'audio'> & { audio: Pick<SessionConfig['audio'], 'output'> }
  conversation: Conversation
  /** True for an answer that stays out of the conversation, and the items that replace it. */
  isOutside: boolean
  items: readonly Item[] | undefined
  metadata: object | null
  /** When the speech that it answers ended, and when its transcript was there, in monotonic ms. */
  speech?: { endMs: number, heardMs: number } | undefined
  socket: EventSocket
}

/** Milliseconds of speech per character, to estimate the length of a clause that is not whole yet. */
const CHAR_MS = 65

/** An answer: writes it with the language model, and speaks its clauses while it is still being written. */
export class Response {
  readonly id = newId('resp')
  readonly #parts: AnswerParts
  readonly #options: ResponseOptions
  readonly #abort = new AbortController()
  readonly #output: Item[] = []
  /** The message that is being written. */
  #message: { item: Item, part: Content } | undefined
  readonly #cutter = new ClauseCutter()
  readonly #clauses: SpokenClause[] = []
  #spoken = Promise.resolve()
  #soundMs = 0
  #usage: Usage | undefined
  #trace: Trace | undefined
  /** Steps of the trace so far, and the end of the last one. */
  readonly #steps = new Set<string>()
  #stepMs = 0
  #ended = false

  constructor (parts: AnswerParts, options: ResponseOptions) {
    this.#parts = parts
    this.#options = options
  }

  get ended (): boolean { return this.#ended }
  get isOutside (): boolean { return this.#options.isOutside }
  get #speaks (): boolean { return this.#options.config.output_modalities[0] === 'audio' }

  /** Runs until the answer is complete, cancelled or failed; never throws. */
  async run (): Promise<void> {
    const { commands, tracers, clock } = this.#parts
    const { caller, speech, conversation } = this.#options
    const commandId = randomUUID()
    this.#stepMs = speech?.endMs ?? clock.mono()
    let untrack = (): void => {}
    this.#send('response.created', { response: this.#shown('in_progress') })
    try {
      untrack = commands.track({
        commandId, caller, abort: (reason) => {
          if (reason === 'cancelled') this.cancel('client_cancelled')
          else this.#fail(kernelError(reason))
        }
      })
      this.#trace = tracers.begin({
        commandId, name: 'realtime', arrivedMs: this.#stepMs, traceparent: undefined, member: false })
      const { signal } = this.#abort
      await raceAbort(conversation.settled(), signal)
      this.#step('transcript', speech?.heardMs)
      const call = callOf(caller, signal, commandId, this.#trace)
      const finish = await this.#write(call)
      this.#say(this.#cutter.finish(), call)
      await this.#spoken
      if (finish === 'length') this.#end('incomplete', { reason: 'max_output_tokens' })
      else this.#end('completed')
    } catch (error) {
      this.#fail(error)
    } finally {
      untrack()
    }
  }

  /** Ends the answer at once; what engines still do for it is cancelled. */
  cancel (reason: 'turn_detected' | 'client_cancelled'): void { this.#end('cancelled', { reason }) }

  #fail (error: unknown): void {
    if (this.#ended) return
    const { type, code, message } = errorFields(error, this.#parts.log)
    this.#end('failed', { reason: code, error: { type, code, message } })
  }

  /** Writes the answer, without the oldest messages if the conversation is too long. */
  async #write (call: CapabilityCall): Promise<Finish> {
    const { config: { instructions, truncation }, conversation, items } = this.#options
    const messages = messagesOf(items ?? conversation.items, instructions)
    const first = instructions === '' ? 0 : 1
    for (;;) {
      try {
        return await patiently(this.#parts.clock, call.signal,
          async () => await this.#attempt(messages, call), () => this.#output.length === 0)
      } catch (error) {
        const isTooLong = (error as { reason?: unknown }).reason === 'context_length_exceeded'
        if (!isTooLong || truncation === 'disabled' || messages.length - first < 2) throw error
        messages.splice(first, Math.ceil((messages.length - first) / 2))
        while (messages[first]?.role === 'tool') messages.splice(first, 1)
      }
    }
  }

  async #attempt (messages: InputMessage[], call: CapabilityCall): Promise<Finish> {
    const { chat: service, chatModel } = this.#parts
    const chat = service()
    if (chat === undefined) throw pluginOff('An answer', 'chat')
    const { model, tools, tool_choice: choice, max_output_tokens: most } = this.#options.config
    const body = {
      model: chatModel(model), messages,
      ...most === 'inf' ? {} : { max_completion_tokens: most as number },
      ...tools.length === 0 ? {} : {
        tools: tools.map(({ type, ...fields }) => ({ type, function: fields })),
        tool_choice: typeof choice === 'string' ? choice
          : { type: 'function' as const, function: { name: choice.name } }
      }
    }
    const calls: Item[] = []
    let finish: Finish = 'stop'
    for await (const { choices: [choice], usage } of chat.answer(body, call)) {
      call.signal.throwIfAborted()
      this.#usage = usage ?? this.#usage
      this.#text(choice?.delta?.content ?? '', call)
      for (const delta of choice?.delta?.tool_calls ?? []) this.#callDelta(calls, delta)
      finish = choice?.finish_reason ?? finish
    }
    for (const item of calls) {
      const { name, arguments: text } = item
      this.#about(item, 'response.function_call_arguments.done', { name, arguments: text })
      this.#done(item, 'completed')
    }
    return finish
  }

  #text (delta: string, call: CapabilityCall): void {
    if (delta === '') return
    const { item, part } = this.#message ??= this.#begin()
    if (this.#speaks) part.transcript += delta
    else part.text += delta
    this.#about(item, `response.output_${this.#speaks ? 'audio_transcript' : 'text'}.delta`, { delta })
    if (this.#speaks) for (const clause of this.#cutter.push(delta)) this.#say(clause, call)
  }

  /** Adds the message to the output, with an empty part. */
  #begin (): { item: Item, part: Content } {
    this.#step('first token')
    const part: Content = this.#speaks ? { type: 'output_audio', transcript: '' }
      : { type: 'output_text', text: '' }
    const item = this.#add({ type: 'message', role: 'assistant', content: [] })
    item.content = [part]
    this.#about(item, 'response.content_part.added', { part: shownPart(part) })
    return { item, part }
  }

  #callDelta (calls: Item[], { index, id, function: { name = '', arguments: delta = '' } }: CallDelta): void {
    const item = calls[index] ??=
      this.#add({ type: 'function_call', name, call_id: id ?? newId('call'), arguments: '' })
    item.arguments += delta
    if (delta !== '') this.#about(item, 'response.function_call_arguments.delta', { delta })
  }

  /** Speaks a clause after those before it. */
  #say (clause: string, call: CapabilityCall): void {
    if (clause === '') return
    this.#step('first clause')
    this.#spoken = this.#spoken.then(async () => {
      const startMs = this.#soundMs
      const spoken = { text: clause, startMs, endMs: startMs + clause.length * CHAR_MS }
      this.#clauses.push(spoken)
      if (clause.trim() !== '') await this.#speak(clause, call)
      spoken.endMs = this.#soundMs
    })
    this.#spoken.catch((error: unknown) => { this.#fail(error) })
  }

  async #speak (clause: string, call: CapabilityCall): Promise<void> {
    const { clock, speech, speechModel: model } = this.#parts
    const { voice, speed, format: { type } } = this.#options.config.audio.output
    const how = { response_format: 'pcm', streaming_interval: 0.5 } as const
    /** Bytes of the clause that were sent, which an attempt after a loss does not send again. */
    let sent = 0
    await patiently(clock, call.signal, async () => {
      const service = speech()
      if (service === undefined) throw pluginOff('Speech', 'capabilities-tts')
      let made = 0
      const send = async (bytes: Buffer): Promise<void> => {
        const fresh = bytes.subarray(Math.max(0, sent - made))
        made += bytes.byteLength
        sent += fresh.byteLength
        if (fresh.byteLength > 0) await this.#sound(fresh)
      }
      let encoder: SoundEncoder | undefined
      for await (const { media } of service.speak({ model, voice, speed, input: clause, ...how }, call)) {
        call.signal.throwIfAborted()
        if (media === undefined) continue
        encoder ??= new SoundEncoder(type, media.sampleRate)
        await send(encoder.push(media.bytes))
      }
      if (encoder !== undefined) await send(encoder.finish())
    })
  }

  async #sound (bytes: Buffer): Promise<void> {
    const { type } = this.#options.config.audio.output.format
    this.#step('first sound')
    this.#soundMs += bytes.byteLength / (type === 'audio/pcm' ? 2 : 1) * 1000 / rateOf(type)
    this.#about(this.#message!.item, 'response.output_audio.delta', { delta: bytes.toString('base64') })
    await this.#options.socket.sent
  }

  #add (fields: Omit<Item, 'id' | 'object' | 'status'>): Item {
    const item: Item = { id: newId('item'), object: 'realtime.item', status: 'in_progress', ...fields }
    this.#output.push(item)
    this.#about(item, 'response.output_item.added', { item: { ...item } })
    if (!this.isOutside) this.#options.conversation.add(item)
    return item
  }

  #done (item: Item, status: Item['status']): void {
    item.status = status
    this.#options.conversation.update(item, this.#clauses)
    this.#about(item, 'response.output_item.done', { item })
    if (!this.isOutside) this.#send('conversation.item.done', { item })
  }

  /** Ends the open items and the response. Later calls have no effect. */
  #end (status: 'completed' | 'cancelled' | 'incomplete' | 'failed', details?: object): void {
    if (this.#ended) return
    if (this.#message !== undefined) {
      const { item, part } = this.#message
      const isCut = status === 'cancelled' || status === 'failed'
      if (this.#speaks && isCut) part.transcript = heardText(this.#clauses, this.#soundMs)
      const { text, transcript } = part
      if (this.#speaks) {
        this.#about(item, 'response.output_audio.done', {})
        this.#about(item, 'response.output_audio_transcript.done', { transcript })
      } else this.#about(item, 'response.output_text.done', { text })
      this.#about(item, 'response.content_part.done', { part: shownPart(part) })
    }
    for (const item of this.#output) {
      if (item.status === 'in_progress') this.#done(item, status === 'completed' ? status : 'incomplete')
    }
    const response = this.#shown(status, details === undefined ? null : { type: status, ...details })
    this.#send('response.done', { response })
    this.#ended = true
    this.#abort.abort(kernelError('cancelled'))
    const kind = status === 'incomplete' ? 'completed' : status
    this.#trace?.end({ kind, reason: kind === 'completed' ? null : status, taskId: null })
  }

  /** Records a step of the trace once: from the end of the one before until now, or until `atMs`. */
  #step (name: string, atMs = this.#parts.clock.mono()): void {
    if (this.#steps.has(name)) return
    this.#steps.add(name)
    this.#trace?.span(name, 'realtime', this.#stepMs, atMs)
    this.#stepMs = atMs
  }

  /** Sends an event about an item of the output; `content_index` is of its only part. */
  #about (item: Item, type: string, fields: object): void {
    const call = item.call_id === undefined ? {} : { call_id: item.call_id }
    const isItem = type.startsWith('response.output_item')
    this.#send(type, {
      response_id: this.id, output_index: this.#output.indexOf(item),
      ...isItem ? {} : { item_id: item.id, content_index: 0, ...call }, ...fields
    })
  }

  #send (type: string, fields: object): void {
    if (!this.#ended) this.#options.socket.send(type, fields)
  }

  #shown (status: string, details: object | null = null): object {
    const { config, conversation, isOutside, metadata } = this.#options
    const { output_modalities: modalities, max_output_tokens: most, audio: { output } } = config
    const voice = typeof output.voice === 'string' ? output.voice : output.voice.id
    return {
      object: 'realtime.response', id: this.id, status, status_details: details, output: [...this.#output],
      conversation_id: isOutside ? null : conversation.id, metadata, output_modalities: modalities,
      max_output_tokens: most, audio: { output: { format: output.format, voice } },
      usage: this.#usage === undefined ? null : usageOf(this.#usage)
    }
  }
}

/** A part as OpenAI's events about parts name it. */
const shownPart = ({ type, text, transcript }: Content): object =>
  type === 'output_audio' ? { type: 'audio', transcript } : { type: 'text', text }

function usageOf ({ prompt_tokens: input, completion_tokens: output = 0, ...usage }: Usage): object {
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0
  return {
    input_tokens: input, output_tokens: output, total_tokens: input + output,
    input_token_details: { text_tokens: input, audio_tokens: 0, image_tokens: 0, cached_tokens: cached },
    output_token_details: { text_tokens: output, audio_tokens: 0 }
  }
}
