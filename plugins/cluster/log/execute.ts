import { changesOf, checkValue, frozenCopy } from '../../../kernel/cluster.js'
import { MAX_RESULT_BYTES } from './receipts.js'
import type { Changes, Clock, KvDoc, Logger, Write } from '../../../kernel/cluster.js'
import type { Entry, NodeId } from '../election/protocol.js'
import type { SnapshotStore } from './snapshot.js'

/** Maximum bytes of the control document's live entries, in Yjs encoding. */
export const MAX_CONTROL_BYTES = 256 * 1024

export interface ControlOptions {
  readonly store: SnapshotStore
  /** True in majority mode: `append` and `adopt` return after the write to disk. False: within 5 s. */
  readonly durable: boolean
  /**
   * Called on the master for each command: the writes go into the document, the result into the receipt. If
   * it throws (a defect), the result is `{ error: { code: 'internal', message } }` and the document does not
   * change.
   */
  execute (payload: unknown, from?: string): { readonly writes: readonly Write[], readonly result: unknown }
  /** Returns the contents of a new session's document, given those of the previous session's. */
  seed (previous: ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown>
  readonly clock: Clock
  readonly log: Logger
  /** The voters before the first entry; empty on a joining node. */
  readonly founders: readonly NodeId[]
}

export interface Effect { readonly changes: Changes, readonly result: unknown }

function failed (code: 'internal' | 'control_full', message: string): Effect {
  return { changes: new Map(), result: { error: { code, message } } }
}

/**
 * Runs a command against the document. Never throws: a defect of `execute` (it throws or returns invalid
 * values) gives the result `internal`, a document above its limit `control_full`; both leave it unchanged.
 */
export function execute (
  options: ControlOptions, kv: KvDoc, { id, payload, from }: Pick<Entry, 'id' | 'payload' | 'from'>
): Effect {
  try {
    const { writes, result } = options.execute(payload, from)
    const changes = changesOf(writes, kv.live)
    const bytes = kv.bytesAfter(changes)
    if (bytes > MAX_CONTROL_BYTES && bytes > kv.liveBytes) {
      return failed('control_full', `The control data would be ${bytes} bytes, at most ` +
        `${MAX_CONTROL_BYTES}; remove instances or cards first.`)
    }
    return { changes, result: keepResult(result) }
  } catch (error) {
    options.log.error({ command: id, err: error }, 'a command failed unexpectedly; nothing was written')
    return failed('internal', 'The command failed because of a defect of this node; see its log.')
  }
}

function keepResult (result: unknown): unknown {
  const given = result ?? null
  const unfit = checkValue(given)
  if (unfit !== null) throw new TypeError(`the result ${unfit}`)
  const text = JSON.stringify(given)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_RESULT_BYTES) {
    throw new RangeError(`the result has ${bytes} bytes, at most ${MAX_RESULT_BYTES}`)
  }
  return JSON.parse(text)
}

/** The contents of a new session; those of the old one if `seed` fails or returns an invalid value. */
export function seedOf (
  options: ControlOptions, previous: ReadonlyMap<string, unknown>
): ReadonlyMap<string, unknown> {
  try {
    return new Map([...options.seed(previous)].map(([key, value]) => [key, frozenCopy(key, value)]))
  } catch (err) {
    options.log.error({ err }, 'the new session could not be seeded; it starts with all data of the old one')
    return previous
  }
}
