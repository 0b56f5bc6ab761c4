// Parses the frames of a capability call, which arrive over HTTP, server-sent events or a WebSocket.
import type { FrameKind, FrameMedia, FrameParser } from '../../../capabilities/frames/parser.js'
import { grouped } from '../ui/text.js'

export interface FrameHeader {
  call_id: string | null, sequence: number, kind: FrameKind, payload: unknown, media: FrameMedia | null
  error: { message: string, reason: string, details?: Record<string, unknown> } | null
}

export interface Frame { header: FrameHeader, media: Uint8Array | null }

/** Adds bytes to a parser of `application/vnd.svc.frames` and yields the frames that are now complete. */
export function * framesIn (parser: FrameParser, bytes: Uint8Array): Iterable<Frame> {
  parser.push(bytes)
  for (let next = parser.next(); next !== null; next = parser.next()) {
    yield { ...next, header: headerOf(next.header) }
  }
}

function headerOf (header: Record<string, unknown> | null): FrameHeader {
  if (typeof header?.['kind'] !== 'string') throw new Error('A frame has no kind.')
  const without = { call_id: null, sequence: 0, payload: null, media: null, error: null }
  return { ...without, ...header } as unknown as FrameHeader
}

/** Parses the data of a server-sent event, whose header contains the media as base64. */
export function frameOfEvent (data: string): Frame {
  const header = headerOf(JSON.parse(data) as Record<string, unknown> | null)
  const { data: encoded, ...media } = (header.media ?? {}) as FrameMedia & { data?: string }
  if (encoded === undefined) return { header, media: null }
  const bytes = Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0))
  return { header: { ...header, media }, media: bytes }
}

export function mediaOf (frames: readonly Frame[]): { type: string, bytes: Uint8Array[], size: number }[] {
  const pieces = frames.flatMap(({ header, media }) =>
    media === null || header.media === null ? [] : [{ type: String(header.media.media_type), media }])
  return [...grouped(pieces, ({ type }) => type)].map(([type, list]) => ({
    type, bytes: list.map(({ media }) => media),
    size: list.reduce((sum, { media }) => sum + media.byteLength, 0)
  }))
}

export function endingOf (type: string): string {
  const known: Record<string, string> = {
    'audio/mpeg': 'mp3', 'audio/wav': 'wav', 'audio/pcm': 'pcm', 'image/png': 'png', 'image/jpeg': 'jpg',
    'application/json': 'json', 'text/plain': 'txt'
  }
  return known[type.split(';')[0]!.trim()] ?? 'bin'
}
