import * as Y from 'yjs'
import { deepFreeze } from '../../config/paths.js'
import { checkUpdate, ROOT, type Pair, type UpdateCheck } from './guard.js'
import { frozenCopy, sizeOf } from './values.js'

export interface Write { readonly key: string, readonly value: unknown }

/** Limits beyond which a document is replaced by a new one with the same entries. */
const MAX_STRUCTS = 5000
const MAX_ENCODED = 512 * 1024
/** Encoded size in bytes above which live entries must make up at least a tenth of a document. */
const SMALL = 64 * 1024
const LEAST_LIVE = 0.1

/** New values by key; undefined if the key was removed. */
export type Changes = ReadonlyMap<string, unknown>

/**
 * Keys and JSON values in a Y.Doc with one writer, in the layout of y-utility's YKeyValue: a list of `{ key,
 * val }` in which a write appends an entry and deletes the old one. Adjacent deleted entries merge into one
 * struct, so the size follows the number of live keys; a Y.Map would keep every write.
 */
export class KvDoc {
  /** Yjs client id of the document's only writer. */
  readonly writer: number
  /** Whether this node is the writer. */
  readonly own: boolean
  readonly #doc = new Y.Doc()
  readonly #list: Y.Array<Pair>
  /** Live entries in list order; writing a key moves it to the end. */
  readonly #live = new Map<string, unknown>()
  readonly #sizes = new Map<string, number>()
  #liveBytes = 0
  #changes = new Map<string, unknown>()
  #sent: Uint8Array | null = null
  /** Bytes of updates since the encoded size was last measured. */
  #unmeasured = 0

  /** `writer`: client id of the document's writer, by default a new one. `own`: this node is that writer. */
  constructor (writer?: number, own = writer === undefined) {
    if (own && writer !== undefined) this.#doc.clientID = writer
    this.#list = this.#doc.getArray<Pair>(ROOT)
    this.writer = writer ?? this.#doc.clientID
    this.own = own
    this.#list.observe((event) => { this.#observed(event) })
    if (this.own) this.#doc.on('update', (update) => { this.#sent = update })
  }

  static holding (contents: ReadonlyMap<string, unknown>): KvDoc {
    const kv = new KvDoc()
    kv.#transact(contents)
    return kv
  }

  get live (): ReadonlyMap<string, unknown> { return this.#live }
  /** Bytes of the live entries as encoded in updates. */
  get liveBytes (): number { return this.#liveBytes }
  /** The writer's clock, which is the number of entries ever written. */
  get clock (): number { return Y.getState(this.#doc.store, this.writer) }
  get structs (): number { return this.#doc.store.clients.get(this.writer)?.length ?? 0 }
  get doc (): Y.Doc { return this.#doc }

  /**
   * Writes changes as one transaction; only for the writer. Returns the update, or null if nothing changed.
   * Values must come from `keep`, since they are not copied.
   */
  write (changes: Changes): Uint8Array | null {
    this.#sent = null
    this.#transact(changes)
    const sent = this.#sent as Uint8Array | null
    this.#unmeasured += sent?.length ?? 0
    return sent
  }

  bytesAfter (changes: Changes): number {
    let bytes = this.#liveBytes
    for (const [key, value] of changes) {
      bytes -= this.#sizes.get(key) ?? 0
      if (value !== undefined) bytes += sizeOf(key, value)
    }
    return bytes
  }

  /** Whether a new document should replace this one. Encodes the document once per 64 KiB of updates. */
  needsCompaction (): boolean {
    if (this.structs > MAX_STRUCTS) return true
    if (this.#unmeasured < SMALL) return false
    this.#unmeasured = 0
    const { length } = this.state()
    return length > MAX_ENCODED || (length > SMALL && this.#liveBytes / length < LEAST_LIVE)
  }

  check (update: Uint8Array, known = this.clock, maxBytes?: number): UpdateCheck {
    const limit = maxBytes === undefined ? {} : { maxBytes }
    return checkUpdate(update, { client: this.writer, known, ...limit })
  }

  /** Applies a checked update. Null means that the document differs from its writer's and must be dropped. */
  apply (update: Uint8Array): Changes | null {
    this.#changes = new Map()
    try { Y.applyUpdate(this.#doc, update) } catch { return null }
    const { pendingStructs, pendingDs } = this.#doc.store
    if (pendingStructs !== null || pendingDs !== null) return null
    return this.#live.size === this.#list.length ? this.#changes : null
  }

  state (vector?: Uint8Array): Uint8Array { return Y.encodeStateAsUpdate(this.#doc, vector) }

  destroy (): void { this.#doc.destroy() }

  #transact (changes: Changes): void {
    this.#doc.transact(() => {
      for (const { index, length } of this.#placesOf(changes)) this.#list.delete(index, length)
      const pushed: Pair[] = []
      for (const [key, val] of changes) if (val !== undefined) pushed.push({ key, val })
      if (pushed.length > 0) this.#list.push(pushed)
    })
  }

  /** Ranges of the live entries with these keys, last first, so that deleting one does not shift the rest. */
  #placesOf (keys: Changes): { index: number, length: number }[] {
    const places: { index: number, length: number }[] = []
    let index = 0
    for (const key of this.#live.keys()) {
      if (keys.has(key)) {
        const last = places.at(-1)
        if (last !== undefined && last.index + last.length === index) last.length++
        else places.push({ index, length: 1 })
      }
      index++
    }
    return places.reverse()
  }

  #forget (key: string): void {
    this.#live.delete(key)
    this.#liveBytes -= this.#sizes.get(key) ?? 0
    this.#sizes.delete(key)
  }

  /** Reads only what the transaction changed, since Yjs' `event.changes` walks through the whole list. */
  #observed ({ transaction }: Y.YArrayEvent<Pair>): void {
    const before = transaction.beforeState.get(this.writer) ?? 0
    Y.iterateDeletedStructs(transaction, transaction.deleteSet, (struct) => {
      if (struct.id.clock >= before) return
      for (const { key } of pairsOf(struct)) {
        this.#forget(key)
        this.#changes.set(key, undefined)
      }
    })
    const structs = this.#doc.store.clients.get(this.writer) ?? []
    let first = structs.length
    while (first > 0 && (structs[first - 1]?.id.clock ?? 0) >= before) first--
    // Structs are sorted by clock, which is also the order of the list.
    for (const struct of structs.slice(first)) {
      if (struct.deleted) continue
      for (const { key, val } of pairsOf(struct)) this.#take(key, deepFreeze(val))
    }
  }

  #take (key: string, value: unknown): void {
    this.#forget(key)
    const bytes = sizeOf(key, value)
    this.#live.set(key, value)
    this.#sizes.set(key, bytes)
    this.#liveBytes += bytes
    this.#changes.set(key, value)
  }
}

function pairsOf (struct: Y.Item | Y.GC): readonly Pair[] {
  return struct instanceof Y.Item ? struct.content.getContent() as Pair[] : []
}

/** The last write of each key, without writes that change nothing. @throws TypeError naming the key */
export function changesOf (
  writes: readonly Write[], live: ReadonlyMap<string, unknown>
): Map<string, unknown> {
  const changes = new Map<string, unknown>()
  for (const { key, value } of writes) {
    changes.set(key, value === undefined ? undefined : frozenCopy(key, value))
  }
  for (const [key, value] of changes) {
    const same = value === undefined
      ? !live.has(key)
      : live.has(key) && JSON.stringify(live.get(key)) === JSON.stringify(value)
    if (same) changes.delete(key)
  }
  return changes
}

export function difference (
  from: ReadonlyMap<string, unknown>, to: ReadonlyMap<string, unknown>
): Map<string, unknown> {
  const changes = changesOf([...to].map(([key, value]) => ({ key, value })), from)
  for (const key of from.keys()) if (!to.has(key)) changes.set(key, undefined)
  return changes
}
