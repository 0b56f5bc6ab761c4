// The frames of a capability call, from the three ways in which they come.

export interface FrameMedia {
  media_type: string, codec: string, sample_rate: number, channels: number, size: number
  timestamp_seconds: number, duration_seconds: number
}

export type FrameKind = 'started' | 'chunk' | 'completed' | 'failed' | 'cancelled' | 'error'

export interface FrameHeader {
  call_id: string | null, sequence: number, kind: FrameKind, payload: unknown, media: FrameMedia | null
  error: { message: string, reason: string, details?: Record<string, unknown> } | null
}

export interface Frame { header: FrameHeader, media: Uint8Array | null }

/** Whether no frame of the call follows. */
export const isLast = ({ header: { kind } }: Frame): boolean =>
  kind === 'completed' || kind === 'failed' || kind === 'cancelled'

const LENGTH_BYTES = 4
/** Longest header and longest media that are read: what comes from another origin may be anything. */
const MOST_HEADER = 8 * 1024 * 1024
const MOST_MEDIA = 64 * 1024 * 1024

/** Reads `application/vnd.svc.frames`, however its bytes are cut. */
export class FrameReader {
  #held = new Uint8Array(0)

  /** True while part of a frame waits for the rest. */
  get inside (): boolean { return this.#held.byteLength > 0 }

  /**
   * The frames that are whole with these bytes.
   * @throws Error when they are no frames
   */
  push (bytes: Uint8Array): Frame[] {
    const all = new Uint8Array(this.#held.byteLength + bytes.byteLength)
    all.set(this.#held)
    all.set(bytes, this.#held.byteLength)
    const frames: Frame[] = []
    let at = 0
    for (let next = frameAt(all, at); next !== null; next = frameAt(all, at)) {
      frames.push(next.frame)
      at = next.end
    }
    this.#held = all.slice(at)
    return frames
  }
}

function frameAt (bytes: Uint8Array, at: number): { frame: Frame, end: number } | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.byteLength < at + LENGTH_BYTES) return null
  const length = view.getUint32(at)
  if (length < 2 || length > MOST_HEADER) {
    throw new Error(`A frame's header has ${length} bytes: this is no frame.`)
  }
  const body = at + LENGTH_BYTES + length
  if (bytes.byteLength < body) return null
  const header = headerOf(new TextDecoder().decode(bytes.subarray(at + LENGTH_BYTES, body)))
  const size = header.media?.size ?? 0
  if (!Number.isInteger(size) || size < 0 || size > MOST_MEDIA) {
    throw new Error(`A frame says that it has ${size} bytes of media.`)
  }
  if (bytes.byteLength < body + size) return null
  return {
    frame: { header, media: header.media === null ? null : bytes.slice(body, body + size) }, end: body + size
  }
}

function headerOf (text: string): FrameHeader {
  const header = JSON.parse(text) as Partial<FrameHeader> | null
  if (typeof header?.kind !== 'string') throw new Error('A frame has no kind.')
  return { call_id: null, sequence: 0, payload: null, media: null, error: null, ...header } as FrameHeader
}

/** A frame from the data of a server-sent event: its media is in the header, as base64. */
export function frameOfEvent (data: string): Frame {
  const header = headerOf(data)
  const { data: encoded, ...media } = (header.media ?? {}) as FrameMedia & { data?: string }
  if (encoded === undefined) return { header, media: null }
  const bytes = Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0))
  return { header: { ...header, media }, media: bytes }
}

/** What came as media, put together: one piece for each type, in the order in which they came. */
export function mediaOf (frames: readonly Frame[]): { type: string, bytes: Uint8Array[], size: number }[] {
  const pieces = new Map<string, { type: string, bytes: Uint8Array[], size: number }>()
  for (const { header, media } of frames) {
    if (media === null || header.media === null) continue
    const type = String(header.media.media_type)
    const piece = pieces.get(type) ?? { type, bytes: [], size: 0 }
    piece.bytes.push(media)
    piece.size += media.byteLength
    pieces.set(type, piece)
  }
  return [...pieces.values()]
}

/** The ending of a file of this type. */
export function endingOf (type: string): string {
  const known: Record<string, string> = {
    'audio/mpeg': 'mp3', 'audio/wav': 'wav', 'audio/pcm': 'pcm', 'image/png': 'png', 'image/jpeg': 'jpg',
    'application/json': 'json', 'text/plain': 'txt'
  }
  return known[type.split(';')[0]!.trim()] ?? 'bin'
}
