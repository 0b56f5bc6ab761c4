import {
  closedObject, withHeaders, type Clock, type Context, type FromSchema, type Manifest, type Section,
  type SvcError
} from '../../kernel/index.js'
import type { EndedTask, RouteQuery, RunnerWork } from '../runners/service.js'
import type { UsageTable } from './usage/table.js'

const most = { type: 'integer', minimum: 1, maximum: 10 ** 12 } as const
export const limitsSchema = closedObject(
  { requests_per_minute: most, tokens_per_minute: most, tokens_per_day: most }, [])
export type Limits = Readonly<FromSchema<typeof limitsSchema>>

const count = { type: 'integer', minimum: 0 } as const
/** A key's requests and tokens at one node, in a minute (counted since 1970) and on a UTC day. */
export const spentSchema = closedObject({
  minute: count, requests: count, tokens: count, day: { type: 'string', maxLength: 10 }, dayTokens: count
})
type Spent = FromSchema<typeof spentSchema>

/** Milliseconds between two reports to other nodes, which bounds how far a key can exceed its limits. */
export const REPORT_MS = 2000
const MINUTE_MS = 60_000
interface Use { own: Spent, family: string[], changed: boolean }

/** Requests whose further attempts are known not to be new requests. */
const RECENT_MAX = 1000

interface Parts {
  /** Limits of a caller; undefined if it has none. */
  limitsOf: (callerId: string) => Limits | undefined
  /** The keys of a rotation share their limits: their ids, the oldest first; else the caller's alone. */
  familyOf: (callerId: string) => string[]
  table: Pick<UsageTable, 'tokens'>
  section: Section<Spent>
  nodeId: string
  clock: Pick<Clock, 'now'>
  error: (reason: 'limit_reached', message: string, details: Record<string, unknown>) => SvcError
}

/**
 * Limits of keys over all nodes. A request is refused once its key has used up a limit. The tokens of a
 * request are known when it ends, so open requests, and recent ones at other nodes, can exceed the limit.
 */
export class KeyLimits {
  readonly #parts: Parts
  /** By the oldest key of a family. */
  readonly #spent = new Map<string, Use>()
  /** The latest reports of other nodes, by node and key; those of a lost node hold until the day ends. */
  readonly #heard = new Map<string, { key: string, value: Spent }>()
  readonly #recent = new Set<string>()

  constructor (parts: Parts) { this.#parts = parts }

  /** Counts a request. Throws `limit_reached`. */
  admit ({ caller: { id }, commandId }: Pick<RouteQuery, 'caller' | 'commandId'>): void {
    const limits = this.#parts.limitsOf(id)
    if (limits === undefined || this.#recent.has(commandId)) return
    const spent = this.#of(id)
    const used = this.#sum(spent)
    const { clock, error } = this.#parts
    for (const [name, words, header, spanMs] of RULES) {
      const limit = limits[name]
      if (limit === undefined || used[name] < limit) continue
      const seconds = Math.ceil((spanMs - clock.now() % spanMs) / 1000)
      throw withHeaders(
        error('limit_reached',
          `The key has used ${used[name]} of ${limit} ${words}; the next ones are free in ${seconds} s.`,
          { limit: name, retryAfterSeconds: seconds }),
        { [`x-ratelimit-limit-${header}`]: String(limit), [`x-ratelimit-remaining-${header}`]: '0',
          [`x-ratelimit-reset-${header}`]: `${seconds}s` })
    }
    spent.own.requests++
    spent.changed = true
    this.#recent.add(commandId)
    if (this.#recent.size > RECENT_MAX) this.#recent.delete(this.#recent.values().next().value!)
  }

  /** Counts the tokens of a task that has ended. */
  add (callerId: string, tokens: number): void {
    if (this.#parts.limitsOf(callerId) === undefined) return
    const spent = this.#of(callerId)
    spent.own.tokens += tokens
    spent.changed = true
  }

  /** Reports what a key has used today, also before the start of this node. */
  resume (callerId: string): void {
    const use = this.#of(callerId)
    use.changed ||= this.#parts.table.tokens(use.own.day, use.family) > 0
  }

  /** Sends what has changed to the other nodes, and stores their reports. */
  report (): void {
    this.#hear()
    for (const [key, one] of this.#spent) {
      if (!one.changed) continue
      one.changed = false
      const dayTokens = this.#parts.table.tokens(one.own.day, one.family)
      this.#parts.section.put(key, { ...one.own, dayTokens })
    }
  }

  #hear (): void {
    const { clock, nodeId, section } = this.#parts
    const today = new Date(clock.now()).toISOString().slice(0, 10)
    for (const { key, value, nodeId: from } of section.entries()) {
      if (from !== nodeId) this.#heard.set(`${from} ${key}`, { key, value })
    }
    for (const [id, { value }] of this.#heard) if (value.day < today) this.#heard.delete(id)
  }

  #of (callerId: string): Use {
    const now = this.#parts.clock.now()
    const [minute, day] = [Math.floor(now / MINUTE_MS), new Date(now).toISOString().slice(0, 10)]
    const family = this.#parts.familyOf(callerId)
    const key = family[0]!
    const known = this.#spent.get(key)
    const own = known?.own.minute === minute ? { ...known.own, day }
      : { minute, requests: 0, tokens: 0, day, dayTokens: 0 }
    const spent = { own, family, changed: known?.changed ?? false }
    this.#spent.set(key, spent)
    return spent
  }

  #sum ({ own, family }: Use): Required<Limits> {
    this.#hear()
    const others = [...this.#heard.values()].filter(({ key }) => key === family[0]).map(({ value }) => value)
    const sum = (name: 'requests' | 'tokens'): number => others.filter(({ minute }) => minute === own.minute)
      .reduce((all, one) => all + one[name], own[name])
    return {
      requests_per_minute: sum('requests'), tokens_per_minute: sum('tokens'),
      tokens_per_day: others.filter(({ day }) => day === own.day)
        .reduce((all, { dayTokens }) => all + dayTokens, this.#parts.table.tokens(own.day, family))
    }
  }
}

/** Limit, words for messages, name in the headers of OpenAI's API, and span. */
const RULES: readonly (readonly [keyof Limits, string, string, number])[] = [
  ['requests_per_minute', 'requests of this minute', 'requests', MINUTE_MS],
  ['tokens_per_minute', 'tokens of this minute', 'tokens', MINUTE_MS],
  ['tokens_per_day', 'tokens of this day (UTC)', 'tokens', 24 * 60 * MINUTE_MS]
]

/** The keys of a rotation, the oldest first, by what each key replaces. */
export function familyOf (id: string, replaces: ReadonlyMap<string, string | null>): string[] {
  const first = (one: string, left = replaces.size): string => {
    const before = replaces.get(one) ?? null
    return before === null || left === 0 ? one : first(before, left - 1)
  }
  const oldest = first(id)
  return [...new Set([oldest, id, ...[...replaces.keys()].filter((one) => first(one) === oldest)])]
}

interface Limited { limits?: Limits, replaces: string | null }

interface LimitParts extends Pick<Parts, 'error' | 'section' | 'table'> {
  keys: Pick<Section<Limited>, 'entries' | 'get' | 'observe'>
  work: RunnerWork
  payerOf: (callerId: string) => string
}

/** Enforces the limits of the cluster's keys at this node. `payerOf`: see `startUsage`. */
export function startLimits (
  ctx: Pick<Context<Manifest>, 'clock' | 'effect' | 'every' | 'node'>, parts: LimitParts
): void {
  const { error, keys, payerOf, section, table, work } = parts
  const limits = new KeyLimits({
    error, section, table, clock: ctx.clock, nodeId: ctx.node.nodeId,
    limitsOf: (id) => keys.get(id)?.limits,
    familyOf: (id) => familyOf(id, new Map([...keys.entries()].map((one) => [one.key, one.value.replaces])))
  })
  const resume = (): void => {
    for (const { key, value } of keys.entries()) if (value.limits !== undefined) limits.resume(key)
  }
  resume()
  ctx.effect('limits of the document', keys.observe(resume))
  ctx.effect('limits of keys', work.onRequest(({ caller, commandId }) => {
    limits.admit({ caller: { ...caller, id: payerOf(caller.id) }, commandId })
  }))
  ctx.effect('tokens of keys', work.onTask(({ callerId, entered, tokens }: EndedTask) => {
    if (entered && tokens !== null) limits.add(payerOf(callerId), tokens.prompt + tokens.generated)
  }))
  ctx.every('use of limited keys', REPORT_MS, () => { limits.report() })
}
