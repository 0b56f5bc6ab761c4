// Sends requests to models and shows their answers, updated at most once per animation frame.
import { effect } from '@preact/signals'
import { ApiError, serverEvents } from '../api.js'
import { nodes } from '../known.js'
import { call, origin, state, status } from '../link.js'
import { openCalls, pathOf, pathTo, type Answer, type Message } from './conversation.js'
import { Incoming } from './incoming.js'
import { chatBody } from './request.js'
import { conversation, say, update } from './session.js'

/** Silence in ms after which a node counts as lost; nodes send data at least every 10 s. */
const SILENCE_MS = 30_000

const stops = new Map<string, AbortController>()

export const nodeName = (): string =>
  nodes.value.find(({ local }) => local)?.name ?? new URL(origin.value).host

export function connected (signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = effect(() => { if (status.value === 'live') queueMicrotask(done) })
    function done (): void {
      end()
      resolve()
    }
    signal.addEventListener('abort', () => {
      end()
      reject(signal.reason)
    })
  })
}

export function ask (content: string, images: string[]): void {
  const { id, lanes } = conversation.value
  for (const index of lanes.keys()) {
    const asked = say(id, index, { role: 'user', content, ...images.length === 0 ? {} : { images } })
    void answer(id, index, asked)
  }
}

/** Replaces a message; the old one stays as a branch. */
export function edit (index: number, { parent, images }: Message, content: string): void {
  const { id } = conversation.value
  const message = { role: 'user' as const, content, ...images === undefined ? {} : { images } }
  void answer(id, index, say(id, index, message, parent))
}

/** Requests another answer; the former one stays as a branch. */
export function again (index: number, { parent }: Message): void {
  const { id, lanes } = conversation.value
  const asked = pathTo(lanes[index]!, parent).at(-1)
  if (asked !== undefined) void answer(id, index, asked)
}

/** Sets the result of a tool call; once all calls have results, the model continues. */
export function answerCall (index: number, callId: string, content: string): void {
  const { id } = conversation.value
  const given = say(id, index, { role: 'tool', content, callId })
  if (openCalls(pathOf(conversation.value.lanes[index]!)).length === 0) void answer(id, index, given)
}

/** Stops one answer, or all running answers of the shown conversation. */
export function stop (messageId?: string): void {
  const shown = new Set(conversation.value.lanes.flatMap(({ messages }) => messages.map((one) => one.id)))
  for (const [id, controller] of stops) {
    if (id === messageId || (messageId === undefined && shown.has(id))) controller.abort()
  }
}

const blankAnswer = (model: string): Omit<Answer, 'sent'> => ({
  model, state: 'open', note: null, remedy: null, reasoning: '', toolCalls: [], finish: null, commandId: null,
  traced: false, node: '', firstMs: null, totalMs: null, tokens: null, perSecond: null
})

async function answer (id: string, index: number, asked: Message): Promise<void> {
  const { settings, lanes } = conversation.value
  const { model } = lanes[index]!
  const path = pathTo(lanes[index]!, asked.id)
  const first: Answer = { ...blankAnswer(model), sent: settings }
  const message = say(id, index, { role: 'assistant', content: '', answer: first }, asked.id)
  const controller = new AbortController()
  stops.set(message.id, controller)
  const writing = new Writing(message, (next) => { update(id, index, next) })
  try {
    await writing.run(chatBody(model, settings, path), controller)
  } finally { stops.delete(message.id) }
}

/** Reason for aborting an answer that repeats itself. If the user has set a token limit, it continues. */
const LOOP = new Error('It repeats itself. Set "Most tokens" to let it go on.')

class Writing {
  readonly #incoming = new Incoming()
  readonly #show: (message: Message) => void
  #message: Message
  #frame: number | null = null
  #begun = 0
  #firstAt: number | null = null
  #lastAt = 0

  constructor (message: Message, show: (message: Message) => void) {
    this.#message = message
    this.#show = show
  }

  async run (body: Record<string, unknown>, controller: AbortController): Promise<void> {
    const { signal } = controller
    const endsLoops = this.#message.answer?.sent.sampling.max_tokens === undefined
    let silent: ReturnType<typeof setTimeout> | undefined
    try {
      await connected(signal)
      this.#begun = performance.now()
      const response = await call('/v1/chat/completions', { body, signal })
      this.#set({
        commandId: response.headers.get('x-svc-command-id'), traced: state.value.tracingEnabled,
        node: nodeName()
      })
      const gone = new Error(`Nothing came for ${SILENCE_MS / 1000} s.`)
      const heard = (): void => {
        clearTimeout(silent)
        silent = setTimeout(() => { controller.abort(gone) }, SILENCE_MS)
      }
      heard()
      for await (const event of serverEvents(response)) {
        heard()
        if (this.#incoming.take(event)) this.#arrived()
        if (endsLoops && this.#incoming.loops) controller.abort(LOOP)
      }
      this.#end(this.#outcome())
    } catch (error) {
      this.#end(failureOf(error, signal))
    } finally { clearTimeout(silent) }
  }

  #arrived (): void {
    this.#lastAt = performance.now()
    this.#firstAt ??= this.#lastAt
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null
      this.#set({})
    })
  }

  #outcome (): Partial<Answer> {
    const { failure, complete } = this.#incoming
    if (failure !== null) {
      const { message: note, remedy, retryable } = failure
      return { state: retryable ? 'lost' : 'failed', note, remedy }
    }
    return complete ? { state: 'done' } : { state: 'lost', note: 'The answer broke off.' }
  }

  #end (outcome: Partial<Answer>): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
    this.#frame = null
    this.#set({ ...outcome, totalMs: performance.now() - this.#begun })
  }

  #set (more: Partial<Answer>): void {
    const { content, reasoning, toolCalls, finish, tokens } = this.#incoming
    const firstMs = this.#firstAt === null ? null : this.#firstAt - this.#begun
    this.#message = {
      ...this.#message, content,
      answer: {
        ...this.#message.answer!, reasoning, toolCalls: toolCalls.map((one) => ({ ...one })), finish, tokens,
        firstMs, perSecond: this.#rate(), ...more
      }
    }
    this.#show(this.#message)
  }

  /** Tokens per second as measured by the engine, or else computed from their arrival times. */
  #rate (): number | null {
    const { perSecond, tokens } = this.#incoming
    if (perSecond !== null) return perSecond
    const ms = this.#lastAt - (this.#firstAt ?? this.#lastAt)
    return tokens === null || tokens < 2 || ms <= 0 ? null : (tokens - 1) / ms * 1000
  }
}

function failureOf (error: unknown, signal: AbortSignal): Partial<Answer> {
  const { reason } = signal as { reason: unknown }
  if (reason === LOOP) return { state: 'stopped', note: LOOP.message }
  if (signal.aborted && !(reason instanceof Error && reason.message.startsWith('Nothing came'))) {
    return { state: 'stopped', note: 'Stopped.' }
  }
  if (error instanceof ApiError && error.status !== 0) {
    return { state: 'failed', note: error.message, remedy: error.remedy }
  }
  const words = signal.aborted ? (reason as Error).message : 'The node went away while it was answering.'
  return { state: 'lost', note: error instanceof ApiError ? error.message : words }
}
