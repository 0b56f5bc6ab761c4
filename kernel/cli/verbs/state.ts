import { isDeepStrictEqual } from 'node:util'
import { systemClock } from '../../api/clock.js'
import { isObject } from '../../api/schema.js'
import { withoutTimes } from '../../state/entries.js'
import { MOMENTS, parseTimeOrIndex } from '../text.js'
import { followEvents } from '../waiting.js'
import type { Verb, VerbContext } from '../verb.js'

export default {
  async run (ctx, _args, options) {
    const at = options['at'] as string | undefined
    if (at !== undefined) await stateThen(ctx, at, options['follow'] === true)
    else if (options['follow'] === true) await followState(ctx)
    else ctx.out.value(await ctx.client.json('/state'))
  }
} satisfies Verb

interface Then {
  snapshot: { idx: number, at: string, cause: string, stale: boolean }
  derived: { idx: number }
  events: unknown[] | null
  more: boolean
}

async function stateThen (ctx: VerbContext, text: string, follow: boolean): Promise<void> {
  if (follow) throw ctx.fail(2, '--at and --follow cannot be combined')
  const at = parseTimeOrIndex(text, systemClock.now())
  if (at === null) throw ctx.fail(2, `--at ${text}: ${MOMENTS}`)
  const then = await ctx.client.json<Then>(`/state?at=${encodeURIComponent(at)}`)
  ctx.out.value(then)
  const { snapshot, derived, events, more } = then
  const count = events === null ? '' : `; events: the ${more ? 'first ' : ''}${events.length} since then`
  ctx.err.line(`state: as recorded at ${snapshot.at} (${snapshot.cause}), index ${snapshot.idx}` +
    `${snapshot.stale ? ', without a master' : ''}; derived: session, members and instances ` +
    `at index ${derived.idx}${count}`)
}

async function followState (ctx: VerbContext): Promise<void> {
  const { manifests } = await ctx.declared()
  const readings = new Set(manifests.flatMap(({ stateReadings = [] }) => stateReadings))
  let shown: ReadonlyMap<string, unknown> = new Map()
  await followEvents(ctx, () => '/state?follow=1', ({ data }) => {
    const now = new Map(Object.entries(JSON.parse(data) as object).filter(([key]) => !readings.has(key)))
    if (now.has('topology')) now.set('topology', withoutTimes(now.get('topology')))
    print(ctx, shown, now)
    shown = now
  })
}

function print (
  { out }: VerbContext, before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>
): void {
  const changes = changesBetween(before, after)
  if (Object.keys(changes).length === 0) return
  if (out.json) return out.value(changes)
  for (const [key, value] of Object.entries(changes)) out.line(describeChange(key, before.get(key), value))
}

export type Changes = Readonly<Record<string, unknown>>

/** Keys whose values differ, with the new values; null for removed keys. Pure. */
export function changesBetween (
  before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>
): Changes {
  const gone = [...before.keys()].filter((key) => !after.has(key)).map((key) => [key, null] as const)
  const changed = [...after].filter(([key, value]) => !isDeepStrictEqual(before.get(key), value))
  return Object.fromEntries([...changed, ...gone])
}

const MAX_WIDTH = 100

function short (value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return text.length > MAX_WIDTH ? `${text.slice(0, MAX_WIDTH - 1)}…` : text
}

/** Describes a changed key in lines for people: added (+), changed (~) and removed (-) map entries. Pure. */
export function describeChange (key: string, before: unknown, after: unknown): string {
  if (!isObject(after) || !isObject(before)) return `${key}: ${short(after)}`
  const marks = [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((id) => {
    if (!Object.hasOwn(before, id)) return [`+${id} ${short(after[id])}`]
    if (!Object.hasOwn(after, id)) return [`-${id}`]
    return isDeepStrictEqual(before[id], after[id]) ? [] : [`~${id} ${short(after[id])}`]
  })
  return marks.length === 0 ? `${key}: {}` : marks.map((mark) => `${key}: ${mark}`).join('\n')
}
