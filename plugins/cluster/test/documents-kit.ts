import { decodeUpdate } from 'yjs'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { ControlLog } from '../log/log.js'
import { memoryStore, type SnapshotStore } from '../log/snapshot.js'
import type { Logger } from '../../../kernel/api/plugin.js'
import type { Write } from '../../../kernel/state/documents/kv-doc.js'
import type { WholeBody } from '../log/entries.js'
import type { ControlOptions } from '../log/execute.js'
import type { Entry } from '../election/protocol.js'

/** A log that collects its warnings and errors. */
export interface KeptLog extends Logger { readonly lines: string[] }

export function keptLog (): KeptLog {
  const lines: string[] = []
  const keep = (_fields: Record<string, unknown>, message: string): void => { lines.push(message) }
  const skip = (): void => {}
  return { lines, debug: skip, info: keep, warn: keep, error: keep, fatal: keep }
}

export interface TestDisk extends SnapshotStore { text: string | undefined, refuses: boolean, writes: number }

export function testDisk (): TestDisk {
  return {
    text: undefined,
    refuses: false,
    writes: 0,
    read () { return this.text },
    write (text) {
      if (this.refuses) throw new Error('ENOSPC')
      this.writes++
      this.text = text
    }
  }
}

/** A command for these tests: the writes to make, and the result to return. */
export interface Told { readonly writes: readonly Write[], readonly result?: unknown }

export interface ControlRig {
  readonly control: ControlLog
  readonly clock: ManualClock
  readonly log: KeptLog
}

/** A control document whose commands are lists of writes and whose sessions carry everything over. */
export function controlRig (options: Partial<ControlOptions> = {}): ControlRig {
  const clock = manualClock()
  const log = keptLog()
  const control = new ControlLog({
    store: memoryStore,
    durable: false,
    execute: (payload) => {
      const { writes, result } = payload as Told
      return { writes, result }
    },
    seed: (previous) => previous,
    clock,
    log,
    founders: ['a', 'b', 'c'],
    ...options
  })
  return { control, clock, log }
}

export const session = (sid: string, term: number): Entry =>
  ({ kind: 'session', id: `session:${sid}`, sid, term, payload: null })

export const command = (
  id: string, writes: readonly Write[], sid = 's1', term = 1, result?: unknown
): Entry =>
  ({ kind: 'command', id, sid, term, payload: { writes, result } satisfies Told })

export const put = (key: string, value: unknown): Write => ({ key, value })

/** Size of a control document: keys, Yjs structs, bytes in Yjs encoding. */
export function sizeOf (control: ControlLog): { keys: number, structs: number, bytes: number } {
  const { state } = control.body(null) as WholeBody
  const { structs } = decodeUpdate(state)
  return { keys: [...control.entries()].length, structs: structs.length, bytes: state.length }
}
