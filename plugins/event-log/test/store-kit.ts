import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock, type Logger } from '../../../kernel/index.js'
import { entryAfter, START, type Entry, type Position } from '../log/entries.js'
import { STORE_LIMITS, type StoreLimits, type StoreOptions, type Damaged } from '../store/types.js'
import { loadSqlite, type OpenDb } from '../store/sqlite-driver.js'
import { openStore, type EventStore } from '../store/store.js'
import type { Gap } from '../store/gaps.js'

export const full = process.env['SVC_TEST_FULL'] === '1'
const loaded = await loadSqlite().catch((error: Error) => error)
const missing = loaded instanceof Error ? `sqlite3 cannot be loaded: ${loaded.message}` : false
export const openDb: OpenDb = loaded instanceof Error ? async () => { throw loaded } : loaded

/** A test that needs SQLite: skipped if the package cannot be loaded, or for the given reason. */
export function diskTest (name: string, body: (t: Test) => unknown, skip: string | false = false): void {
  void t.test(name, { skip: missing === false ? skip : missing }, body)
}

/** Limits for tests: groups are written at once, and no limit is reached. */
export const limits: StoreLimits = { ...STORE_LIMITS, floorBytes: 0, headroomBytes: 0, groupMs: 1, holdMs: 0,
  checkMs: 5 }

export interface StoreRig {
  store: EventStore
  folder: string
  gaps: Gap[]
  damaged: Damaged[]
  logged: { level: string, message: string, fields: Record<string, unknown> }[]
}

interface Ending { teardown (fn: () => unknown): unknown }

export function tempFolder (t: Ending): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-events-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

export function recorder (logged: StoreRig['logged']): Logger {
  const at = (level: string) => (fields: Record<string, unknown>, message: string): void => {
    logged.push({ level, message, fields })
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal') }
}

export async function openRig (
  t: Ending, folder: string,
  options: Partial<Omit<StoreOptions, 'limits'>> & { limits?: Partial<StoreLimits> } = {}
): Promise<StoreRig> {
  const rig = { folder, gaps: [] as Gap[], damaged: [] as Damaged[], logged: [] as StoreRig['logged'] }
  const store = await openStore({
    folder, openDb, clock: systemClock, logger: recorder(rig.logged),
    freeBytes: async () => Infinity,
    onMode: () => {},
    onGap: (gap) => { rig.gaps.push(gap) },
    onDamaged: (damaged) => { rig.damaged.push(damaged) },
    ...options,
    limits: { ...limits, ...options.limits }
  })
  let closed: Promise<void> | null = null
  const close = store.close.bind(store)
  store.close = () => closed ??= close()
  t.teardown(() => store.close())
  return { ...rig, store }
}

/** `count` entries after a position, one a second. */
export function chain (
  count: number, { after = START, kind = 'NodeJoined', text = '', origin = 'here', from = 0, sid = 's1' }:
  { after?: Position, kind?: string, text?: string, origin?: string, from?: number, sid?: string } = {}
): Entry[] {
  let last = after
  return Array.from({ length: count }, (_, i) => {
    const at = new Date(Date.UTC(2026, 0, 1) + (last.idx + 1) * 1000).toISOString()
    const submission = { id: randomUUID(), at, origin, event: { [kind]: { n: from + i, text } } }
    const entry = entryAfter(last, last.idx + 1, sid, submission)
    last = entry
    return entry
  })
}

export async function everything (store: EventStore): Promise<Entry[]> {
  const all: Entry[] = []
  for (;;) {
    const page = await store.read({ after: all.at(-1)?.idx ?? 0, limit: 1000 })
    if (page.length === 0) return all
    all.push(...page)
  }
}

export async function until (fits: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 2000; i++) {
    if (await fits()) return
    await new Promise((resolve) => { setTimeout(resolve, 5) })
  }
  throw new Error('it did not come to that')
}
