/** One server: its models, its state, and answers from it. */
import { request } from 'node:http'
import { request as secureRequest } from 'node:https'
import {
  AddressRefused, EngineError, kernelError, outgoingAgent, requireAuthority, SvcError, type Clock,
  type EngineChunk, type EngineTask
} from '../../kernel/index.js'
import { count, listOf, numberOf, text, type Fields } from '../runners/language/json.js'
import { merged } from '../runners/language/merged.js'
import { chatReader } from '../runners/openai/answer.js'
import { Client } from '../runners/openai/client.js'
import { BrokenAnswer } from '../runners/openai/errors.js'
import { toUpstreamError, upstreamError } from './errors.js'
import { bodyFor, estimatedCost } from './request.js'
import { entryOf, type Entry, type ServerSettings } from './settings.js'
import type { Spending } from '../capabilities/service.js'
import type { RouteQuery } from '../runners/service.js'

const CONNECT_MS = 10_000
const PROBE_MS = 10_000
/** Ms between two probes of a server that works. */
const PROBE_EVERY_MS = 60_000
const MAX_BYTES = 4 * 2 ** 20
const MAX_EVENT_CHARS = 2 ** 20
const MAX_LISTED = 200
const MODEL = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/
const MAX_HOPS = 3

export interface ServerParts {
  clock: Clock
  /** Install ids of the cluster's nodes, this one first. */
  nodes: () => string[]
  spending: () => Spending | undefined
  /** Called after `models` or `problem` has changed. */
  changed: () => void
}

export class UpstreamServer {
  readonly settings: ServerSettings
  /** By name in svc. */
  models: ReadonlyMap<string, Entry>
  /** Why the server cannot be used, and since when; null if it can. */
  problem: { message: string, since: string } | null = null
  readonly #parts: ServerParts
  readonly #clients: Readonly<Record<'local' | 'named', Client>>
  #probing = false
  #probedMs = -Infinity

  constructor (settings: ServerSettings, parts: ServerParts) {
    this.settings = settings
    this.#parts = parts
    this.models = settings.models ?? new Map()
    if (settings.missing !== null) this.problem = { message: settings.missing, since: this.#now }
    this.#clients = { local: this.#client('local'), named: this.#client('named') }
  }

  close (): void { for (const client of Object.values(this.#clients)) client.close() }

  /** Asks the server for its models, unless it was asked a short time ago and worked. */
  async probe (): Promise<void> {
    const { settings, settings: { missing, external }, problem } = this
    const { clock } = this.#parts
    const isDue = problem !== null || clock.mono() - this.#probedMs >= PROBE_EVERY_MS
    if (missing !== null || this.#probing || !isDue) return
    this.#probing = true
    this.#probedMs = clock.mono()
    const late = new AbortController()
    const stop = clock.after(PROBE_MS, () => { late.abort() })
    const outside = external || [...this.models.values()].some((entry) => entry.external)
    try {
      const answer = await this.#clients[outside ? 'named' : 'local'].json({ path: '/models', signal: late.signal })
      if (settings.models === undefined) this.models = this.#listed(answer)
      this.#works()
    } catch (error) {
      // A server whose models are configured need not list them.
      const answers = (error instanceof SvcError || error instanceof EngineError) && !isRefusedKey(error)
      if (answers && settings.models !== undefined) this.#works()
      else this.#failing(whyOf(error))
    } finally {
      stop()
      this.#probing = false
    }
  }

  /** Throws before the first chunk if the caller may not use the model, or the request came from here. */
  async * open (
    modelId: string, entry: Entry, { payload }: EngineTask, query: RouteQuery, signal: AbortSignal
  ): AsyncGenerator<EngineChunk> {
    if (entry.external) {
      requireAuthority(query.caller, 'external',
        `Requests to ${modelId} leave the cluster: this needs the authority "external"`)
    }
    const headers = { ...this.settings.headers, 'x-svc-hops': this.#hops(modelId, query) }
    const answers = numberOf(payload['n']) ?? 1
    const body = bodyFor(payload, entry)
    await this.#pay(modelId, entry, body, answers, query, signal)
    const tops = numberOf(payload['top_logprobs']) ?? 0
    const client = this.#clients[entry.external ? 'named' : 'local']
    yield * merged(Array.from({ length: answers }, (_, index) =>
      this.#answer(client, { body, headers }, chatReader(index, tops), signal)))
  }

  async * #answer (
    client: Client, sent: Pick<Parameters<Client['events']>[0], 'body' | 'headers'>,
    reader: ReturnType<typeof chatReader>, signal: AbortSignal
  ): AsyncGenerator<EngineChunk> {
    const { name, firstMs, idleMs } = this.settings
    const late = new AbortController()
    const limit = (ms: number): () => void => this.#parts.clock.after(ms, () => {
      late.abort(kernelError('timeout', `${name} sent nothing for ${ms / 1000} s.`))
    })
    let stop = limit(firstMs)
    let began = false
    try {
      const both = AbortSignal.any([signal, late.signal])
      for await (const event of client.events({ path: '/chat/completions', ...sent, signal: both })) {
        // The limit is for the server, not for a slow reader.
        stop()
        if (this.problem !== null) this.#works()
        began = true
        for (const chunk of reader.read(event)) yield { payload: { ...chunk } }
        stop = limit(idleMs)
      }
    } catch (error) {
      signal.throwIfAborted()
      throw this.#failure(late.signal.aborted ? late.signal.reason : error, began)
    } finally {
      stop()
    }
    const end = reader.end(0)
    if (end === null) throw kernelError('provider_error', `${name} ended an answer early.`)
    yield { payload: { ...end } }
  }

  async #pay (
    modelId: string, { price }: Entry, body: Fields, answers: number, { commandId, caller }: RouteQuery,
    signal: AbortSignal
  ): Promise<void> {
    if (price === undefined) return
    const spending = this.#parts.spending()
    if (spending === undefined) {
      throw kernelError('approval_denied',
        `${modelId} has a price, and the plugin that approves costs (\`approvals\`) is disabled.`)
    }
    const amount = estimatedCost(body, price, answers)
    await spending.allow({ capability: modelId, commandId, caller, amount, signal })
  }

  /** The header that names the nodes of svc on the way. Throws `upstream_loop`. */
  #hops (modelId: string, { hops = '' }: RouteQuery): string {
    const [self = '', ...others] = this.#parts.nodes()
    const passed = hops.split(',').map((one) => one.trim()).filter((one) => one !== '')
    if (passed.length >= MAX_HOPS || passed.some((one) => one === self || others.includes(one))) {
      throw upstreamError('upstream_loop', `${modelId}: the request has passed ${passed.length} nodes of svc on ` +
        `its way; at most ${MAX_HOPS} are allowed, and none of this cluster.`)
    }
    return [...passed, self].join(',')
  }

  #listed (answer: Fields): ReadonlyMap<string, Entry> {
    const { name, external } = this.settings
    return new Map(listOf(answer['data']).flatMap((one) => {
      const id = text(one, 'id')
      const { tasks } = one
      const isChat = !Array.isArray(tasks) || tasks.includes('chat')
      const context = count(one, ['context_length', 'max_model_len', 'context_window'])
      return id === undefined || !MODEL.test(id) || !isChat ? []
        : [[`${name}/${id}`, entryOf(id, external, context === undefined ? {} : { context })] as const]
    }).slice(0, MAX_LISTED))
  }

  #client (trust: 'local' | 'named'): Client {
    const { name, url, key } = this.settings
    const secure = url.protocol === 'https:'
    const hide = (said: string): string => key === undefined ? said : said.replaceAll(key, '[key]')
    return new Client({
      address: {
        host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) || (secure ? 443 : 80)
      },
      name, key,
      remote: {
        request: secure ? secureRequest : request, agent: outgoingAgent(url, trust),
        base: url.pathname.replace(/\/$/, ''), connectMs: CONNECT_MS, maxBytes: MAX_BYTES,
        maxEventChars: MAX_EVENT_CHARS
      },
      toError: (body, status, headers) => toUpstreamError(name, hide, body, status, headers?.['retry-after'])
    })
  }

  /** The error for a failed request; also notes that the server cannot be used. */
  #failure (error: unknown, began: boolean): unknown {
    const isKnown = error instanceof SvcError || error instanceof EngineError
    const why = whyOf(error)
    const isDown = error instanceof AddressRefused || isBroken(error)
    if (!began && (isDown || isRefusedKey(error))) this.#failing(why)
    if (isKnown) return error
    return !began && isDown ? upstreamError('upstream_unavailable', `${this.settings.name}: ${why}.`)
      : kernelError('provider_error', `${this.settings.name}: ${why}.`)
  }

  get #now (): string { return new Date(this.#parts.clock.now()).toISOString() }

  #failing (message: string): void {
    const since = this.problem?.since ?? this.#now
    const isNews = this.problem?.message !== message
    this.problem = { message, since }
    if (isNews) this.#parts.changed()
  }

  #works (): void {
    this.problem = null
    this.#parts.changed()
  }
}

const isRefusedKey = (error: unknown): boolean =>
  error instanceof SvcError && error.message.includes(' refused its key')

const isBroken = (error: unknown): boolean =>
  error instanceof BrokenAnswer && error.message.startsWith('the connection to ')

function whyOf (error: unknown): string {
  if (error instanceof AddressRefused) return `${error.message}; a model outside it needs \`external: true\``
  return error instanceof Error ? error.message.replace(/\.$/, '') : 'it failed'
}
