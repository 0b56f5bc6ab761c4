import type { Clock } from '../../api/clock.js'
import type { Logger } from '../../api/plugin.js'
import type { Ledger, NodeId, Receipt } from '../election/index.js'

/** One change of a document. `value` undefined removes the key. */
export interface Write { readonly key: string, readonly value: unknown }

/** What the master made of a command entry. */
export interface Executed { readonly writes: readonly Write[], readonly result: unknown }

/** Where the snapshot lies. Synchronous: `write` is durable when it returns, and throws when it is not. */
export interface SnapshotStore {
  /** The text of the last write; undefined before the first. */
  read (): string | undefined
  write (text: string): void
}

export interface ControlOptions {
  /** `<home>/state/control.json`; null: memory only. */
  readonly path: string | null
  /** Takes the place of the file at `path`. */
  readonly store?: SnapshotStore
  /**
   * The majority mode: an entry is on disk before `append` and `adopt` return. Else the disk is at most 5 s
   * behind.
   */
  readonly durable: boolean
  /**
   * On the master only: runs a command entry. Its writes go into the document, its result into the receipt.
   * Throwing is a defect: nothing is written and the result is `{ error: { code: 'internal', message } }`.
   */
  execute (payload: unknown, read: (key: string) => unknown, from?: string): Executed
  /** The contents of a new session's document out of those of the old one. */
  seed (previous: ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown>
  readonly clock: Clock
  readonly log: Logger
  /** The voters before any entry; empty on a node that joins. */
  readonly founders: readonly NodeId[]
}

export interface Position {
  readonly sid: string | null
  readonly term: number
  readonly seq: number
  /** Rises with each rotation of the document within its session. */
  readonly gen: number
  /** SHA-256 of the canonical JSON of all entries, in hex. */
  readonly hash: string
}

/** Why a body from the master was not taken, and how often. */
export interface ControlStats {
  readonly keys: number
  readonly structs: number
  /** Of the document as Yjs encodes it. */
  readonly bytes: number
  readonly gen: number
  readonly rotations: number
  /** Milliseconds that the last rotation blocked the loop. */
  readonly lastRotationMs: number
  /** Bodies that continued something this node does not hold. */
  readonly gaps: number
  /** Bodies that broke the guard. */
  readonly refused: number
  /** Writes of the snapshot that failed. */
  readonly failedWrites: number
}

/**
 * The control document: what the master decided, entry by entry. `append` and `adopt` never throw on bad
 * input.
 */
export interface Control extends Ledger {
  get (key: string): unknown
  entries (): Iterable<readonly [string, unknown]>
  /** `fn` runs after each change, inside `append` or `adopt`: it must not call the election. */
  observe (fn: (keys: ReadonlySet<string>) => void): () => void
  position (): Position
  /** The receipt of a command among the newest 1,000, and its result (undefined once it is too old). */
  receipt (id: string): { readonly receipt: Receipt, readonly result: unknown } | undefined
  /** The next body must be whole: this copy is not the master's although the numbers agree. */
  distrust (): void
  stats (): ControlStats
  /** Yjs updates as they are entered; the first of a new document is all of it. */
  subscribe (fn: (update: Uint8Array) => void): () => void
  /** Writes what is not on disk yet. */
  close (): void
}

/** Whose document a message is about. */
interface DocName {
  /** Install id of the document's one writer. */
  readonly owner: NodeId
  /** The owner's node id, new at each start. */
  readonly boot: string
}

/** What the receiver needs to put `sync` in its place. */
interface Place extends DocName {
  /** Yjs client id of the writer, one for each generation. */
  readonly client: number
  readonly gen: number
  /** Number of the owner's last change. */
  readonly seq: number
}

/** "This is how far my document is." */
export interface Announce extends Place { readonly kind: 'announce' }
/** "Send me what I lack." `sync` is a y-protocols sync step 1; it counts when boot and gen still fit. */
export interface Ask extends DocName {
  readonly kind: 'ask'
  readonly gen: number
  readonly sync: Uint8Array
}
/** Answer to `ask`, or a new generation: a y-protocols sync step 2. `whole`: for an empty document. */
export interface State extends Place {
  readonly kind: 'state'
  readonly whole: boolean
  readonly sync: Uint8Array
}
/** Change number `seq`: a y-protocols update. */
export interface Update extends Place { readonly kind: 'update', readonly sync: Uint8Array }

/** Body of a frame of kind `document`. */
export type DocMessage = Announce | Ask | State | Update

export interface ObservedEntry {
  readonly installId: NodeId
  readonly nodeId: string
  readonly key: string
  readonly value: unknown
  /** The link to its owner is down: this is what was last known. */
  readonly old: boolean
}

export interface ReplicasOptions {
  readonly installId: NodeId
  readonly nodeId: string
  /** False when there is no link. */
  send (to: NodeId, message: DocMessage): boolean
  broadcast (message: DocMessage): void
  readonly clock: Clock
  readonly log: Logger
  /** A replica had the owner's number and not its contents. It is being loaded again. */
  diverged (installId: NodeId): void
  /** Changes within so many milliseconds leave as one; 10 when left out. */
  readonly coalesceMs?: number
}

export interface ReplicasStats {
  readonly resyncs: number
  readonly rotations: number
  /** Of all documents as Yjs encodes them. */
  readonly bytes: number
  readonly structs: number
  readonly diverged: number
  /** Messages that broke the protocol. */
  readonly refused: number
}

/** The observed documents: the own one, and a replica of each other node's. */
export interface Replicas {
  /**
   * Throws TypeError for a key or value that no document takes, RangeError when the document would be larger
   * than 192 KiB. Both name the key.
   */
  put (key: string, value: unknown): void
  remove (key: string): void
  get (key: string): unknown
  /** The own document, then all replicas. */
  entries (): Iterable<ObservedEntry>
  of (installId: NodeId): ReadonlyMap<string, unknown> | undefined
  /** What another node said in the run that had this node id, also once its link is gone. */
  said (nodeId: string): ReadonlyMap<string, unknown> | undefined
  observe (
    fn: (change: { readonly installId: NodeId, readonly keys: ReadonlySet<string> }) => void
  ): () => void
  /** A link opened: announces the own document. */
  up (installId: NodeId): void
  /** The last link closed: the replica stays, marked old. */
  down (installId: NodeId): void
  /** The node left the cluster, or is given up. */
  drop (installId: NodeId): void
  /** `protocol_error`: it breaks the protocol, or about a document that `from` may not write. */
  receive (from: NodeId, message: unknown): 'ok' | 'protocol_error'
  /** The own document's number, and the hash of its contents then. */
  digest (): { readonly seq: number, readonly hash: string }
  /** A peer said where its document is. Behind it: resync. Same number, other hash: diverged. */
  compare (
    from: NodeId, digest: { readonly boot: string, readonly seq: number, readonly hash: string }
  ): void
  stats (): ReplicasStats
  close (): void
}
