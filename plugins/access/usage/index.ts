import { rename, rm, writeFile } from 'node:fs/promises'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import {
  askMembers, kernelError, openObject, parseJson, readVersioned, type Cluster, type Context,
  type FromSchema, type Manifest, type RouteRequest, type Tokens
} from '../../../kernel/index.js'
import { COUNTS, usageRoute, type Counts } from './declarations.js'
import { addTo, zero, type UsageTable } from './table.js'
import type { RunnerWork } from '../../runners/service.js'

/** Milliseconds between two writes of the file. */
const FLUSH_MS = 5000
/** Deadline in ms and size limit in bytes for another node's answer. */
const PEER_MS = 3000
const PEER_BYTES = 4 * 2 ** 20
const DAY_MS = 86_400_000
const FORMAT = 1

type Usage = FromSchema<typeof usageRoute.reply>
type UsageRequest = RouteRequest<typeof usageRoute>

type UsageContext = Pick<Context<Manifest>, 'checker' | 'clock' | 'effect' | 'every' | 'log' | 'node'> & {
  deps: {
    cluster: Pick<Cluster, 'nodes' | 'request'>, tokens: Pick<Tokens, 'list'>, work: RunnerWork | undefined
  }
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/**
 * Counts the requests that enter at this node; returns the handler of `GET /v1/usage`. `payerOf` maps a
 * caller to the one under which its requests count.
 */
export function startUsage (
  ctx: UsageContext, table: UsageTable, payerOf: (callerId: string) => string
): (request: UsageRequest) => Promise<Usage> {
  const { clock, deps: { cluster, tokens, work }, node } = ctx
  const path = join(node.home, 'state', 'usage.json')
  load(table, path, ctx)
  const file = usageFile(table, path, ctx)
  ctx.every('usage file', FLUSH_MS, () => { void file.flush() })
  ctx.effect('usage file', async () => {
    await file.flush()
    await file.flush()
  })
  if (work !== undefined) {
    ctx.effect('usage', work.onTask((task) => {
      if (!task.entered) return
      table.add(dayOf(clock.now()), { ...task, callerId: payerOf(task.callerId) })
      file.changed()
    }))
  }
  const answerProblem = ctx.checker(openObject({
    rows: { type: 'array', items: openObject(usageRoute.reply.properties.rows.items.properties) }
  }))
  return async (request) => {
    const { caller, member, signal, query: { by = 'key' } } = request
    const { since, until } = daysOf(request.query, dayOf(clock.now()))
    const seesAll = caller.authorities.has('operator')
    const labels = new Map(tokens.list().map(({ id, label }) => [id, label]))
    const groups = new Map<string, Usage['rows'][number]>()
    const group = (key: string, label: string | null, counts: Counts): void => {
      const sum = groups.get(key) ?? { key, label, ...zero() }
      groups.set(key, sum)
      sum.label ??= label
      addTo(sum, counts)
    }
    for (const row of table.rows()) {
      if (row.day < since || row.day > until || !(seesAll || row.caller === caller.id)) continue
      const key = { key: row.caller, model: row.model, day: row.day, node: node.name }[by]
      group(key, by === 'key' ? labels.get(row.caller) ?? null : null, row.counts)
    }
    // `local` is somebody else on each machine.
    const asks = member === null && (seesAll || caller.id !== 'local')
    const peers = asks ? cluster.nodes().filter(({ self }) => !self) : []
    const answers = await Promise.all(askMembers({ cluster, clock }, peers, {
      path: `/v1/usage?by=${by}&since=${since}&until=${until}`, caller, signal, ms: PEER_MS,
      bytes: PEER_BYTES, read: (text) => {
        const value = parseJson(text)
        return answerProblem(value) === null ? (value as Usage).rows : null
      }
    }))
    for (const { key, label, ...counts } of answers.flatMap(({ value }) => value ?? [])) {
      group(key, label, counts)
    }
    const total = zero()
    for (const row of groups.values()) addTo(total, row)
    return {
      by, since, until, total,
      rows: [...groups.values()].filter(isUsed).sort((a, b) =>
        (by === 'day' ? 0 : tokensOf(b) - tokensOf(a)) || (a.key < b.key ? -1 : 1)),
      not_asked: answers.flatMap(({ node: { name }, error }) =>
        error === null ? [] : [{ name, message: error.message }])
    }
  }
}

const isUsed = (counts: Counts): boolean => COUNTS.some((name) => counts[name] > 0)
const tokensOf = ({ prompt_tokens: prompt, output_tokens: output }: Counts): number => prompt + output

/** The days of a request. Throws `invalid_request`. */
function daysOf ({ since, until }: UsageRequest['query'], today: string): { since: string, until: string } {
  const day = (param: string, text: string, last?: string): string => {
    const ms = Date.parse(text)
    const isDate = !Number.isNaN(ms) && dayOf(ms) === text
    if (isDate && (last === undefined || text <= last)) return text
    const message = isDate ? `${text} is after ${last}` : `${text} is not a date`
    throw kernelError('invalid_request', `${param}: ${message}.`,
      { param, issues: [{ path: param, message }] })
  }
  const last = day('until', until ?? today)
  return { since: day('since', since ?? dayOf(Date.parse(last) - 6 * DAY_MS), last), until: last }
}

/** Reads the file into the table; moves a file that cannot be read aside. */
function load (table: UsageTable, path: string, { log }: Pick<UsageContext, 'log'>): void {
  try {
    const { rows = [] } = readVersioned<{ rows: unknown[][] }>(path, FORMAT) ?? {}
    const isRow = ([day, caller, model, ...values]: unknown[]): boolean => typeof day === 'string' &&
      dayOf(Date.parse(day)) === day && typeof caller === 'string' && typeof model === 'string' &&
      values.every((one) => typeof one === 'number' && one >= 0 && one <= Number.MAX_SAFE_INTEGER)
    if (!rows.every(isRow)) throw new Error('it has an invalid row')
    for (const [day, caller, model, ...values] of rows as [string, string, string, ...number[]][]) {
      addTo(table.row(day, caller, model).counts,
        Object.fromEntries(COUNTS.map((name, i) => [name, values[i] ?? 0])) as Counts)
    }
  } catch (err) {
    log.warn({ err }, `${path} cannot be read; it is kept as usage.json.damaged, and counting starts anew`)
    try { renameSync(path, `${path}.damaged`) } catch { /* It is overwritten. */ }
  }
}

/** Writes the table if it has changed. A failure is logged once; the next flush tries again. */
function usageFile (table: UsageTable, path: string, { log }: Pick<UsageContext, 'log'>) {
  const temporary = `${path}.tmp`
  let [isChanged, isFailing] = [false, false]
  let writing: Promise<void> | undefined
  const write = async (): Promise<void> => {
    if (!isChanged) return
    isChanged = false
    const rows = [...table.rows()].map(({ day, caller, model, counts }) =>
      [day, caller, model, ...COUNTS.map((name) => counts[name])])
    try {
      const text = `${JSON.stringify({ format: FORMAT, rows })}\n`
      await writeFile(temporary, text, { mode: 0o600, flush: true })
      await rename(temporary, path)
      isFailing = false
    } catch (err) {
      isChanged = true
      if (!isFailing) log.warn({ err }, 'the usage of models cannot be written; it is counted in memory')
      isFailing = true
      await rm(temporary, { force: true }).catch(() => {})
    }
  }
  return {
    changed: (): void => { isChanged = true },
    /** Joins a write in progress, which may lack the newest counts. */
    flush: (): Promise<void> => writing ??= write().finally(() => { writing = undefined })
  }
}
