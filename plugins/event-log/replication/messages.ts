import { isObject, openObject, parseJson, type Context, type FromSchema } from '../../../kernel/index.js'
import { PAGE_ENTRIES } from '../log/log.js'
import type { Entry, Position, Submission } from '../log/entries.js'

/** Maximum positions in one `want`; a log of 10,000 entries needs 16. */
const MOST_POSITIONS = 64

const text = (maxLength: number) => ({ type: 'string', maxLength } as const)
/** Far above any real index, and far below the limit of exact integers. */
const idx = { type: 'integer', minimum: 0, maximum: 2 ** 50 } as const
const list = <const I extends object>(maxItems: number, items: I) =>
  ({ type: 'array', maxItems, items } as const)

const sid = text(200)
const placed = { idx, chain: text(64) } as const
const position = openObject(placed)
const submission = {
  id: text(64), at: text(40), origin: text(64),
  event: { type: 'object', minProperties: 1, maxProperties: 1, additionalProperties: { type: 'object' } }
} as const
const entries = list(PAGE_ENTRIES, openObject({ ...submission, ...placed, prev: idx, sid }))

/** Messages between nodes. `sid`: the sender's session; a node in another session ignores the message. */
const MESSAGES = {
  /** Master to follower: the position of the last entry in the master's log. */
  head: openObject({ sid, last: position }),
  /** Master of an older version to follower: the next entries, and the log's last position if known. */
  append: openObject({ sid, entries, last: position }, ['sid', 'entries']),
  /** Follower of an older version to master: acknowledges everything up to `last`. */
  took: openObject({ sid, last: position }),
  /**
   * Requests the entries after the newest position in `have` that the receiver also has. `learn`: any node
   * answers, as the sender may be a new master. `above`: indices assigned later must be above it; older
   * versions lack it.
   */
  want: openObject({
    sid, n: idx, learn: { type: 'boolean' }, have: list(MOST_POSITIONS, position), above: idx
  }, ['sid', 'n', 'learn', 'have']),
  /** Answers request `n`: the entries after `base`, and the last position in the sender's log. */
  page: openObject({ sid, n: idx, base: position, entries, last: position, above: idx },
    ['sid', 'n', 'base', 'entries', 'last']),
  /** Follower to master: events without an index. */
  submit: openObject({ sid, events: list(PAGE_ENTRIES, openObject(submission)) })
} as const

type Type = keyof typeof MESSAGES
export type Message = { [T in Type]: { type: T } & FromSchema<(typeof MESSAGES)[T]> }[Type]

export type Of<T extends Type> = Extract<Message, { type: T }>

type Entries = Extract<Message, { entries: unknown }>

/** The wire form of a message. Entries are JSON text, which encodes much faster than the links' format. */
export type Outgoing = Exclude<Message, Entries> | Packed<Entries>

type Packed<M> = M extends Entries ? Omit<M, 'entries'> & { readonly entries: string } : never

export type Input =
  | { readonly type: 'local', readonly submission: Submission }
  | { readonly type: 'message', readonly from: string, readonly message: Message }
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

/** Maximum nesting, the same as in a link's frames. A copied `__proto__` key would change the prototype. */
const MOST_DEPTH = 64

function isPlain (value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (depth >= MOST_DEPTH || Object.hasOwn(value, '__proto__')) return false
  return Object.values(value).every((item) => isPlain(item, depth + 1))
}

/** Creates a parser of messages; it returns null for anything else. Other nodes may run another version. */
export function messageReader ({ checker }: Pick<Context, 'checker'>): (value: unknown) => Message | null {
  const problems = new Map<unknown, (value: unknown) => string | null>(
    Object.entries(MESSAGES).map(([type, schema]) => [type, checker(schema)]))
  return (value) => {
    if (!isObject(value)) return null
    // Entries are sent as a JSON string, but older versions of svc send the list itself.
    const { entries } = value
    const message = typeof entries === 'string' ? { ...value, entries: parseJson(entries) ?? null } : value
    const fits = problems.get(value['type'])?.(message) === null
    // The list of entries does not count as a level.
    return fits && isPlain(message['entries'], -1) ? message as unknown as Message : null
  }
}
