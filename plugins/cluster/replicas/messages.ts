import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import * as sync from 'y-protocols/sync'
import type { Doc } from 'yjs'
import { bytes, count, fits, flag, name, constant, record, type Of, type Schema } from '../wire.js'

const id = name(200)
const document = {
  /** Install id of the document's only writer. */
  owner: id,
  boot: id,
  gen: count
}
/** The receiver's position after `sync`. */
const place = {
  ...document,
  /** Yjs client id of the writer; differs in each generation. */
  client: count,
  /** Number of the owner's last change. */
  seq: count
}
export const MESSAGES = {
  announce: record({ kind: constant('announce'), ...place }),
  /** Requests missing changes. `sync`: a y-protocols sync step 1, valid only if boot and gen still match. */
  ask: record({ kind: constant('ask'), ...document, sync: bytes }),
  /** Answers `ask` or starts a new generation: a y-protocols sync step 2. `whole`: for an empty document. */
  state: record({ kind: constant('state'), ...place, whole: flag, sync: bytes }),
  update: record({ kind: constant('update'), ...place, sync: bytes })
}

export type Announce = Of<typeof MESSAGES.announce>
export type ResyncRequest = Of<typeof MESSAGES.ask>
export type State = Of<typeof MESSAGES.state>
export type Update = Of<typeof MESSAGES.update>
export type DocMessage = Announce | ResyncRequest | State | Update

const schemas = new Map<unknown, Schema<DocMessage>>(Object.entries(MESSAGES))

/** Parses a message; null for anything else. Ignores unknown fields. */
export function readDocMessage (value: unknown): DocMessage | null {
  const schema = schemas.get((value as { kind?: unknown } | null | undefined)?.kind)
  return schema !== undefined && fits(schema, value) ? value : null
}

type SyncKind = 'step1' | 'step2' | 'update'

const TYPES: Readonly<Record<SyncKind, number>> = {
  step1: sync.messageYjsSyncStep1, step2: sync.messageYjsSyncStep2, update: sync.messageYjsUpdate
}

function encoded (write: (encoder: encoding.Encoder) => void): Uint8Array {
  const encoder = encoding.createEncoder()
  write(encoder)
  return encoding.toUint8Array(encoder)
}

export function step1 (doc: Doc): Uint8Array { return encoded((e) => { sync.writeSyncStep1(e, doc) }) }

/** The update for a state vector; the whole document without one. @throws Error for an invalid vector */
export function step2 (doc: Doc, vector?: Uint8Array): Uint8Array {
  return encoded((e) => { sync.writeSyncStep2(e, doc, vector) })
}

export function update (bytes: Uint8Array): Uint8Array {
  return encoded((e) => { sync.writeUpdate(e, bytes) })
}

/** Payload of a y-protocols message of this kind, or null. The y-protocols reader would swallow errors. */
export function payloadOf (kind: SyncKind, message: Uint8Array): Uint8Array | null {
  try {
    const decoder = decoding.createDecoder(message)
    if (decoding.readVarUint(decoder) !== TYPES[kind]) return null
    const payload = decoding.readVarUint8Array(decoder)
    return decoding.hasContent(decoder) ? null : payload
  } catch { return null }
}
