import { parseJson } from '../../../kernel/index.js'
import { PAGE_ENTRIES } from '../log/log.js'
import type { Entry, Position, Submission } from '../log/entries.js'

/** Messages between nodes. `sid`: the sender's session; a node in another session ignores the message. */
export type Message =
  /** Master to follower: the position of the last entry in the master's log. */
  | { readonly type: 'head', readonly sid: string, readonly last: Position }
  /** Master of an older version to follower: the next entries, and the log's last position if known. */
  | {
    readonly type: 'append', readonly sid: string, readonly entries: readonly Entry[]
    readonly last?: Position
  }
  /** Follower of an older version to master: acknowledges everything up to `last`. */
  | { readonly type: 'took', readonly sid: string, readonly last: Position }
  /**
   * Requests the entries after the newest position in `have` that the receiver also has. `learn`: any node
   * answers, as the sender may be a new master. `above`: indices assigned later must be above it.
   */
  | {
    readonly type: 'want', readonly sid: string, readonly n: number
    readonly learn: boolean, readonly have: readonly Position[], readonly above?: number
  }
  /** Answers request `n`: the entries after `base`, and the last position in the sender's log. */
  | {
    readonly type: 'page', readonly sid: string, readonly n: number, readonly base: Position
    readonly entries: readonly Entry[], readonly last: Position, readonly above?: number
  }
  /** Follower to master: events without an index. */
  | { readonly type: 'submit', readonly sid: string, readonly events: readonly Submission[] }

export type Of<T extends Message['type']> = Extract<Message, { type: T }>

type Entries = Extract<Message, { entries: unknown }>

/** The wire form of a message. Entries are JSON text, which encodes much faster than the links' format. */
export type Outgoing = Exclude<Message, Entries> | Packed<Entries>

type Packed<M> = M extends Entries ? Omit<M, 'entries'> & { readonly entries: string } : never

export type Input =
  | { readonly type: 'local', readonly submission: Submission }
  | { readonly type: 'message', readonly from: string, readonly message: unknown }
  | { readonly type: 'peerUp' | 'peerDown', readonly peer: string }
  /** The node's current session; `master` is null while unknown. */
  | {
    readonly type: 'session', readonly sid: string, readonly isMaster: boolean
    readonly master: string | null
  }
  | { readonly type: 'tick' }
  | { readonly type: 'found', readonly search: Search, readonly found: Found }

/** A search of the store for entries that a peer lacks and that are no longer in memory. */
export interface Search {
  readonly to: string
  /** The request to answer: finds the newest of its positions (newest first) and the page after it. */
  readonly want: Of<'want'>
}

/** The page after `base`, the newest requested position in the store; null if the store has none of them. */
export interface Found { readonly base: Position | null, readonly entries: readonly Entry[] }

/** Effects of the replication. No effect may call back into the replication before it returns. */
export interface ReplicationHost {
  /** False if the link is full. A lost message is requested or sent again. */
  send (to: string, message: Outgoing): boolean
  /** Searches the store; the result arrives as the input `found`. */
  find (search: Search): void
  wake (ms: number): void
  /** Reports `count` events dropped between these indices, once the queue is empty again. */
  dropped (gap: { from: number, to: number, count: number }): void
}

/** Maximum positions in one `want`; a log of 10,000 entries needs 16. */
const MOST_POSITIONS = 64

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isText = (value: unknown, most: number): boolean => typeof value === 'string' && value.length <= most

/** Limit for indices: far above any real index, and far below the limit of exact integers. */
const MOST_IDX = 2 ** 50

const isIdx = (value: unknown): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MOST_IDX

/** Validates `above`, which messages of older versions lack. */
const isAbove = (value: unknown): boolean => value === undefined || isIdx(value)

const isPosition = (value: unknown): boolean =>
  isFields(value) && isIdx(value['idx']) && isText(value['chain'], 64)

function isSubmission (value: unknown): boolean {
  if (!isFields(value) || !isFields(value['event'])) return false
  const bodies = Object.values(value['event'])
  return isText(value['id'], 64) && isText(value['at'], 40) && isText(value['origin'], 64) &&
    bodies.length === 1 && isFields(bodies[0])
}

const isEntry = (value: unknown): boolean => isSubmission(value) && isPosition(value) &&
  isIdx((value as Fields)['prev']) && isText((value as Fields)['sid'], 200) && isPlain(value, 0)

/** Maximum nesting, the same as in a link's frames. A copied `__proto__` key would change the prototype. */
const MOST_DEPTH = 64

function isPlain (value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (depth >= MOST_DEPTH || Object.hasOwn(value, '__proto__')) return false
  return Object.values(value).every((item) => isPlain(item, depth + 1))
}

function isList (value: unknown, most: number, fits: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length <= most && value.every(fits)
}

const shapes: Readonly<Record<string, (m: Fields) => boolean>> = {
  head: (m) => isPosition(m['last']),
  append: (m) => (m['last'] === undefined || isPosition(m['last'])) &&
    isList(m['entries'], PAGE_ENTRIES, isEntry),
  took: (m) => isPosition(m['last']),
  want: (m) => isIdx(m['n']) && isAbove(m['above']) && typeof m['learn'] === 'boolean' &&
    isList(m['have'], MOST_POSITIONS, isPosition),
  page: (m) => isIdx(m['n']) && isAbove(m['above']) && isPosition(m['base']) && isPosition(m['last']) &&
    isList(m['entries'], PAGE_ENTRIES, isEntry),
  submit: (m) => isList(m['events'], PAGE_ENTRIES, isSubmission)
}

/** Parses a message; null for anything else. Other nodes may run another version. */
export function readMessage (value: unknown): Message | null {
  if (!isFields(value) || typeof value['type'] !== 'string' || !isText(value['sid'], 200)) return null
  const fits = Object.hasOwn(shapes, value['type']) ? shapes[value['type']]! : () => false
  // Entries are sent as a JSON string, but older versions of svc send the list itself.
  const { entries } = value
  const message = typeof entries === 'string' ? { ...value, entries: parseJson(entries) ?? null } : value
  return fits(message) ? message as unknown as Message : null
}
