import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import * as sync from 'y-protocols/sync'
import type { Doc } from 'yjs'
import type { NodeId } from '../election/types.js'

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

type SyncKind = 'step1' | 'step2' | 'update'

const TYPES: Readonly<Record<SyncKind, number>> = {
  step1: sync.messageYjsSyncStep1, step2: sync.messageYjsSyncStep2, update: sync.messageYjsUpdate
}

function encoded (write: (encoder: encoding.Encoder) => void): Uint8Array {
  const encoder = encoding.createEncoder()
  write(encoder)
  return encoding.toUint8Array(encoder)
}

/** "This is what I have": the state vector of a document. */
export function step1 (doc: Doc): Uint8Array { return encoded((e) => { sync.writeSyncStep1(e, doc) }) }

/**
 * What a document with this state vector lacks; everything without one.
 * @throws Error for bytes that are no state vector
 */
export function step2 (doc: Doc, vector?: Uint8Array): Uint8Array {
  return encoded((e) => { sync.writeSyncStep2(e, doc, vector) })
}

export function update (bytes: Uint8Array): Uint8Array {
  return encoded((e) => { sync.writeUpdate(e, bytes) })
}

/**
 * The payload of a y-protocols message of this kind; null for anything else. Never y-protocols' own reader:
 * that one swallows what it cannot apply.
 */
export function payloadOf (kind: SyncKind, message: Uint8Array): Uint8Array | null {
  try {
    const decoder = decoding.createDecoder(message)
    if (decoding.readVarUint(decoder) !== TYPES[kind]) return null
    const payload = decoding.readVarUint8Array(decoder)
    return decoding.hasContent(decoder) ? null : payload
  } catch {
    return null
  }
}

const text = (v: unknown): boolean => typeof v === 'string' && v !== '' && v.length <= 200
const count = (v: unknown): boolean => Number.isSafeInteger(v) && (v as number) >= 0
const bytes = (v: unknown): boolean => v instanceof Uint8Array

type Shape = Readonly<Record<string, (value: unknown) => boolean>>

const NAME: Shape = { owner: text, boot: text, gen: count }
const PLACE: Shape = { ...NAME, client: count, seq: count }
const SHAPES: ReadonlyMap<unknown, Shape> = new Map<DocMessage['kind'], Shape>([
  ['announce', PLACE],
  ['ask', { ...NAME, sync: bytes }],
  ['state', { ...PLACE, whole: (v) => typeof v === 'boolean', sync: bytes }],
  ['update', { ...PLACE, sync: bytes }]
])

/** The message, or null when it is none. Fields that are unknown here are left alone. */
export function readDocMessage (value: unknown): DocMessage | null {
  if (typeof value !== 'object' || value === null) return null
  const fields = value as Record<string, unknown>
  const shape = SHAPES.get(fields['kind'])
  if (shape === undefined) return null
  return Object.entries(shape).every(([name, fits]) => fits(fields[name])) ? value as DocMessage : null
}
