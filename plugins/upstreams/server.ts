/** One server: its models, its state, and answers from it. */
import { request } from 'node:http'
import { request as secureRequest } from 'node:https'
import {
  AddressRefused, checkKey, EngineError, kernelError, outgoingAgent, requireAuthority, SvcError, type Clock,
  type EngineChunk, type EngineTask
} from '../../kernel/index.js'
import { count, listOf, numberOf, text, type Fields, fieldsOf, present } from '../runners/language/json.js'
import { merged } from '../runners/language/merged.js'
import { chatReader } from '../runners/openai/answer.js'
import { Client } from '../runners/openai/client.js'
import { BrokenAnswer } from '../runners/openai/errors.js'
import { messagesBody, messagesReader, VERSION } from './anthropic.js'
import { REFUSED_KEY, toUpstreamError, upstreamError, withoutSecrets } from './errors.js'
import { entryOf, type Entry, type ServerSettings, type Price } from './settings.js'
import type { Spending, Amount } from '../capabilities/service.js'
import type { RouteQuery } from '../runners/service.js'

/** Limit in ms on a probe, and ms between two probes of a server that works. */
const PROBE_MS = 10_000
const PROBE_EVERY_MS = 60_000
/** Limit in bytes on a list of models, and in characters on an event. */
const MAX_BYTES = 2 * 2 ** 20
const MAX_LISTED = 200
const MODEL = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,120}$/
const CONTEXT = ['context_length', 'max_model_len', 'max_input_tokens']
const MAX_HOPS = 3
const HOP = /^[\w-]{1,64}$/

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
  /** Why the server cannot be used, and since when (ISO 8601); null if it can. */
  problem: { message: string, since: string } | null = null
  readonly #parts: ServerParts
  readonly #client: Client
  #probedMs = -Infinity

  constructor (settings: ServerSettings, parts: ServerParts) {
    const { name, api, url, key, external, models, missing } = this.settings = settings
    this.#parts = parts
    this.models = models ?? new Map()
    if (missing !== null) this.problem = { message: missing, since: this.#now }
    const secure = url.protocol === 'https:'
    const hide = withoutSecrets([...key === undefined ? [] : [key], ...Object.values(settings.headers)])
    this.#client = new Client({
      address: { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) || (secure ? 443 : 80) },
      name, key, keyHeader: api === 'anthropic' ? 'x-api-key' : undefined,
      remote: {
        request: secure ? secureRequest : request, agent: outgoingAgent(url, external ? 'named' : 'local'),
        base: url.pathname.replace(/(?<!\/)\/+$/, ''), maxBytes: MAX_BYTES
      },
      toError: (body, status, headers) => toUpstreamError(name, hide, body, status, headers?.['retry-after'])
    })
  }

  close (): void { this.#client.close() }

  /** Asks the server for its models, unless it was asked a short time ago and worked. */
  async probe (): Promise<void> {
    const { problem, settings: { missing, models } } = this
    const { clock } = this.#parts
    const pauseMs = clock.mono() - this.#probedMs
    if (missing !== null || pauseMs < (problem === null ? PROBE_EVERY_MS : PROBE_MS)) return
    this.#probedMs = clock.mono()
    const late = new AbortController()
    const stop = clock.after(PROBE_MS, () => { late.abort() })
    try {
      const call = { path: '/models', headers: this.#headers, signal: late.signal }
      const answer = await this.#client.json(call)
      if (models === undefined) this.models = this.#listed(answer)
      this.#works()
    } catch (error) {
      // A server whose models are configured need not list them.
      if (models !== undefined && isAnswer(error)) this.#works()
      else this.#fails(whyOf(error))
    } finally {
      stop()
    }
  }

  /** Throws before the first chunk if the caller may not use the model, or the request came from here. */
  async * open (
    modelId: string, entry: Entry, { payload }: EngineTask, query: RouteQuery, signal: AbortSignal
  ): AsyncGenerator<EngineChunk> {
    const { commandId, caller } = query
    if (this.settings.external) {
      requireAuthority(caller, 'external', `Requests to ${modelId} leave the cluster: this needs "external"`)
    }
    const headers = { ...this.#headers, 'x-svc-hops': this.#hops(query) }
    const answers = numberOf(payload['n']) ?? 1
    const body = bodyFor(payload, entry)
    if (entry.price !== undefined) {
      const spending = this.#parts.spending()
      if (spending === undefined) {
        throw kernelError('approval_denied',
          `${modelId} costs money, and the plugin that approves costs (\`approvals\`) is disabled.`)
      }
      const amount = estimatedCost(body, entry.price, answers)
      await spending.allow({ capability: modelId, commandId, caller, amount, signal })
    }
    const tops = numberOf(payload['top_logprobs']) ?? 0
    const isAnthropic = this.settings.api === 'anthropic'
    const call = isAnthropic ? { path: '/messages', body: messagesBody(body), headers }
      : { path: '/chat/completions', body, headers }
    yield * merged(Array.from({ length: answers }, (_, index) =>
      this.#answer(call, (isAnthropic ? messagesReader : chatReader)(index, tops), signal)))
  }

  async * #answer (
    call: Parameters<Client['events']>[0], reader: ReturnType<typeof chatReader>, signal: AbortSignal
  ): AsyncGenerator<EngineChunk> {
    const { name, silenceMs } = this.settings
    const late = new AbortController()
    const limit = (): () => void => this.#parts.clock.after(silenceMs, () => {
      late.abort(kernelError('timeout', `${name} sent nothing for ${silenceMs / 1000} s.`))
    })
    let [stop, began] = [limit(), false]
    const either = AbortSignal.any([signal, late.signal])
    try {
      for await (const event of this.#client.events({ ...call, signal: either })) {
        // The limit is for the server, not for a slow reader.
        stop()
        began = true
        if (this.problem !== null) this.#works()
        for (const chunk of reader.read(event)) yield { payload: { ...chunk } }
        stop = limit()
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

  get #headers (): Record<string, string> {
    const { api, headers } = this.settings
    return api === 'anthropic' ? { ...VERSION, ...headers } : headers
  }

  /** `x-svc-hops` for the server: the request's own and this node. Throws `upstream_loop`. */
  #hops ({ hops = '' }: RouteQuery): string {
    const nodes = this.#parts.nodes()
    const passed = hops.split(',').map((one) => one.trim()).filter((one) => HOP.test(one))
    if (passed.length >= MAX_HOPS || passed.some((one) => nodes.includes(one))) {
      throw upstreamError('upstream_loop', `The request has passed ${passed.length} nodes of svc on its ` +
        `way; at most ${MAX_HOPS} are allowed, and none of this cluster.`)
    }
    return [...passed, nodes[0]].join(',')
  }

  #listed (answer: Fields): ReadonlyMap<string, Entry> {
    return new Map(listOf(answer['data']).flatMap((one) => {
      const [id, context] = [text(one, 'id'), count(one, CONTEXT)]
      const isChat = !Array.isArray(one['tasks']) || one['tasks'].includes('chat')
      return id === undefined || !MODEL.test(id) || checkKey(`models/${id}`) !== null || !isChat ? []
        : [[`${this.settings.name}/${id}`, entryOf(id, context === undefined ? {} : { context })] as const]
    }).slice(0, MAX_LISTED))
  }

  /** The error for a failed request; also notes that the server cannot be used. */
  #failure (error: unknown, began: boolean): unknown {
    const isDown = error instanceof AddressRefused || isBroken(error)
    if (!began && isDown) this.#fails(whyOf(error))
    if (error instanceof SvcError || error instanceof EngineError) return error
    const message = `${this.settings.name}: ${whyOf(error)}.`
    return !began && isDown ? upstreamError('upstream_unavailable', message)
      : kernelError('provider_error', message)
  }

  get #now (): string { return new Date(this.#parts.clock.now()).toISOString() }

  #fails (message: string): void {
    this.problem = { message, since: this.problem?.since ?? this.#now }
    this.#parts.changed()
  }

  #works (): void {
    this.problem = null
    this.#parts.changed()
  }
}

const isRefusedKey = (error: unknown): boolean =>
  error instanceof SvcError && error.message.includes(REFUSED_KEY)

const isAnswer = (error: unknown): boolean =>
  (error instanceof SvcError || error instanceof EngineError) && !isRefusedKey(error)

const isBroken = (error: unknown): boolean =>
  error instanceof BrokenAnswer && error.message.startsWith('the connection to ')

function whyOf (error: unknown): string {
  if (error instanceof AddressRefused) return `${error.message}; outside it, \`external: true\` is needed`
  return error instanceof Error ? error.message.replace(/\.$/, '') : 'it failed'
}

/** Fields that svc sets itself, or that would name files, models or transfers at the server. */
const OWN = new Set(['model', 'models', 'route', 'provider', 'fallbacks', 'preset', 'n', 'best_of',
  'n_predict', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'chat_template',
  'chat_template_kwargs', 'adapters', 'draft_model', 'kv_transfer_params', 'response_format', 'stream',
  'stream_options', 'extra_body'])

/** The body for one answer; other fields of the task pass unchanged. */
export function bodyFor (payload: Fields, { id, maxTokens, price }: Entry): Record<string, unknown> {
  const { n_predict: predict, max_tokens: asked = predict, response_format: format } = payload
  const most = Math.min(numberOf(asked) ?? Infinity, maxTokens ?? Infinity)
  const given = fieldsOf(payload['chat_template_kwargs'])
  const { reasoning_effort: effort, enable_thinking: thinks, ...rest } = given
  // The chat route derives both from the field `reasoning_effort`, which servers read.
  const variables = effort === undefined ? { ...rest, ...present({ enable_thinking: thinks }) } : rest
  return {
    // Fields that svc does not know may raise the cost above the estimate.
    ...Object.fromEntries(Object.entries({ ...price ? {} : fieldsOf(payload['extra_body']), ...payload })
      .filter(([name]) => !OWN.has(name))),
    ...present({
      max_tokens: most === Infinity ? null : most, reasoning_effort: effort,
      chat_template_kwargs: Object.keys(variables).length === 0 ? null : variables,
      response_format: format === undefined ? null : withName(fieldsOf(format))
    }),
    model: id, stream: true, stream_options: { include_usage: true }
  }
}

/** OpenAI requires a name of a schema. */
const withName = (format: Fields): Fields => format['type'] !== 'json_schema' ? format
  : { ...format, json_schema: { name: 'answer', ...fieldsOf(format['json_schema']) } }

const BYTES_PER_TOKEN = 3

/** The cost of answers of `max_tokens`, and of one token for every 3 bytes of messages and tools. */
export function estimatedCost (
  { messages, tools, max_tokens: most }: Fields, { currency, prompt, completion }: Price, answers: number
): Amount {
  const tokens = Math.ceil(Buffer.byteLength(JSON.stringify([messages, tools])) / BYTES_PER_TOKEN)
  // A price of 1 for 1,000,000 tokens is 1,000 billionths for each.
  const each = (tokens * prompt + (numberOf(most) ?? 0) * completion) * 1000
  return { unit: currency, nano: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(each * answers)) }
}
