import { createDecoder, readAny, readVarUint } from 'lib0/decoding'
import { createEncoder, toUint8Array, writeAny, writeVarUint } from 'lib0/encoding'
import { count, flag, name, orNull, read, record, schemaOf, mapShapeError, type Of } from '../wire.js'

/** Reasons to close a link: codes of the WebSocket close frame (4000 to 4999 are private, RFC 6455 7.4.2). */
export const closeCodes = {
  /** Normal close: the node is stopping. */
  stopping: 1001,
  /** The bytes are not a valid frame: truncated, too long, nested too deeply, or with unknown value types. */
  bad_frame: 4400,
  /** Links accept binary frames only. */
  text_frame: 4401,
  unknown_kind: 4402,
  /** The other end's key no longer belongs to a member. */
  not_member: 4403,
  other_cluster: 4404,
  /** The hello names a member other than the one whose key was proven on the connection. */
  wrong_identity: 4405,
  /** A frame from a later version of this protocol. */
  other_version: 4406,
  /** A frame before the hello, a second hello, or a hello with wrong fields. */
  bad_hello: 4407,
  no_hello: 4408,
  /** Another link to the same member takes precedence. */
  duplicate: 4409,
  /** No frame arrived while three pings were sent. */
  stalled: 4410,
  /** The frame can be decoded, but the cluster does not accept its content. */
  off_protocol: 4411,
  /** The member must wait: it recently broke the protocol, or another process with its key may be linked. */
  too_soon: 4412,
  too_large: 4413,
  /** Another process with the same key is already linked and answers pings. */
  copied: 4414,
  /** Too many bytes are queued for the other end. */
  slow_reader: 4429,
  /** The other end sent more documents and channel messages than its credit allowed. */
  no_credit: 4430
} as const

export type CloseReason = keyof typeof closeCodes

/** Reasons that mean a protocol violation by the other end. */
export const VIOLATIONS: ReadonlySet<string> = new Set<CloseReason>([
  'bad_frame', 'text_frame', 'unknown_kind', 'wrong_identity', 'bad_hello', 'off_protocol', 'too_large',
  'no_credit'
])

const words = new Map<number, string>(Object.entries(closeCodes).map(([word, code]) => [code, word]))

/** The reason for a close code; `lost` if there was no close frame, `closed` for an unknown code. */
export function closeWord (code: number): string {
  return words.get(code) ?? (code === 1006 ? 'lost' : 'closed')
}

export type FrameKind = 'election' | 'document' | 'telemetry' | 'channel'

/**
 * Version of the messages between nodes, sent in the hello; a hello without it is from release 0.1.0, version
 * 1. It increases with any change to a declared message; nodes of the previous version stay full members.
 */
export const PROTOCOL = 2

/** Version of the frames: varUint version, varUint kind, one value in lib0's `any` encoding. */
export const WIRE_VERSION = 1

export type WireKind = FrameKind | 'hello' | 'ping' | 'pong' | 'credit'

/** A kind's index is its number on the wire, so never reuse an index. */
const KINDS: readonly WireKind[] =
  ['hello', 'ping', 'pong', 'election', 'document', 'telemetry', 'channel', 'credit']
const numbers = new Map<WireKind, number>(KINDS.map((kind, index) => [kind, index]))
const MAX_DEPTH = 64

/** An error that closes the link; `word` is the reason. */
export class FrameError extends Error {
  readonly word: CloseReason

  constructor (word: CloseReason, message: string) {
    super(message)
    this.name = 'FrameError'
    this.word = word
  }
}

/** Encodes one frame of plain values and Uint8Arrays; functions and symbols become undefined. */
export function encodeFrame (kind: WireKind, body: unknown): Uint8Array {
  const encoder = createEncoder()
  writeVarUint(encoder, WIRE_VERSION)
  writeVarUint(encoder, numbers.get(kind)!)
  writeAny(encoder, body as Parameters<typeof writeAny>[1])
  return toUint8Array(encoder)
}

/** Decodes one frame. Throws FrameError; byte arrays in the body are views of `bytes`. */
export function decodeFrame (bytes: Uint8Array): { kind: WireKind, body: unknown } {
  const decoder = createDecoder(bytes)
  const version = reading(() => readVarUint(decoder))
  if (version !== WIRE_VERSION) {
    throw new FrameError('other_version', `frame version ${version}, this node uses ${WIRE_VERSION}`)
  }
  const kind = KINDS[reading(() => readVarUint(decoder))]
  if (kind === undefined) throw new FrameError('unknown_kind', 'a frame of an unknown kind')
  const body: unknown = reading(() => readAny(decoder))
  // The decoder may read past the frame if the bytes are part of a larger buffer.
  if (decoder.pos !== bytes.length) throw new FrameError('bad_frame', 'the value does not end with its frame')
  checkValue(body, 0)
  return { kind, body }
}

/** Converts any error from the decoder, including excessive recursion, to `bad_frame`. */
function reading<T> (read: () => T): T {
  try { return read() } catch { throw new FrameError('bad_frame', 'the bytes are not a frame') }
}

function checkValue (value: unknown, depth: number): void {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return
  if (depth >= MAX_DEPTH) throw new FrameError('bad_frame', `values are nested deeper than ${MAX_DEPTH}`)
  if (Array.isArray(value)) {
    for (const item of value) checkValue(item, depth + 1)
    return
  }
  // Decoding a key named __proto__ has changed the prototype of the object.
  if (Object.getPrototypeOf(value) !== Object.prototype) {
    throw new FrameError('bad_frame', 'an object has a key that is not allowed')
  }
  for (const item of Object.values(value)) checkValue(item, depth + 1)
}

const text = name(256)
const helloSchema = record({
  installId: text, nodeId: text, name: text, version: text, clusterId: text, apiUrl: orNull(text),
  /** The host:port that the sender advertises for other members to connect to; null if it has none. */
  address: orNull(text)
}, {
  protocol: count,
  /** The sender's `cluster.quorum` setting. */
  quorum: text
})
export const greetingSchema = record({
  hello: helloSchema,
  /** Number of this link in the sending process; of two links, the later one has the higher number. */
  serial: schemaOf<number>({
    type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER
  }),
  /** True if the node had no other connection to this member when it sent the hello. */
  alone: flag
})

export type Hello = Of<typeof helloSchema>
export type Greeting = Of<typeof greetingSchema>

/** Reads the body of a hello. Throws FrameError naming the field. */
export function readGreeting (body: unknown): Greeting {
  return mapShapeError(() => read(greetingSchema, body),
    ({ message }) => new FrameError('bad_hello', `hello: ${message}`))
}
