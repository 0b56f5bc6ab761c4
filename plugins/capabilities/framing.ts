import { encodeEvent, type Frame } from './frames/frames.js'
import type { Clock, StreamWriter } from '../../kernel/index.js'

/** Destination of one call's frames, which are written sequentially. */
export interface FrameSink {
  /**
   * Returns undefined if the reader accepts the frame synchronously; rejects if the reader is gone or
   * too slow.
   */
  write (frame: Frame): Promise<void> | undefined
  end (): Promise<void>
  /** Breaks the connection, so that the reader sees an incomplete response. */
  cut (): void
}

type Writer = Pick<StreamWriter, 'write' | 'end' | 'cut'>

/** Writes each frame with `encode`; skips it if `encode` returns null. */
export function encodedSink (
  writer: Writer, encode: (frame: Frame) => Uint8Array | string | null
): FrameSink {
  return {
    write (frame) {
      const bytes = encode(frame)
      return bytes === null ? undefined : writer.write(bytes)
    },
    end: () => writer.end(),
    cut () { writer.cut() }
  }
}

/**
 * `text/event-stream`: sends a comment at the start and after `keepAliveMs` of silence, which reveals dead
 * peers.
 */
export function eventSink (writer: Writer, clock: Clock, keepAliveMs: number): FrameSink {
  let line: Promise<void> = Promise.resolve()
  let stop = (): void => {}
  let over = false
  const close = (): void => { over = true; stop() }
  const send = (text: string): Promise<void> => {
    stop()
    line = line.then(() => writer.write(text))
    line.then(rearm, close)
    return line
  }
  const rearm = (): void => {
    stop()
    if (!over) stop = clock.after(keepAliveMs, () => { void send(': keep-alive\n\n').catch(close) })
  }
  send(': keep-alive\n\n').catch(close)
  return {
    write: (frame) => send(encodeEvent(frame)),
    async end () {
      close()
      await line
      await writer.end()
    },
    cut () { close(); writer.cut() }
  }
}

/** Writes only the media bytes; every terminal frame except `completed` cuts the connection. */
export function rawSink (writer: Writer): FrameSink {
  let clean = true
  const sink = encodedSink(writer, ({ header: { kind }, media }) => {
    if (kind === 'failed' || kind === 'cancelled') clean = false
    return media
  })
  return {
    ...sink,
    async end () {
      if (clean) await sink.end()
      else sink.cut()
    }
  }
}

interface Range { type: string, q: number }

/**
 * Chooses a media type for an Accept header: highest q, then the most specific range, then the order of the
 * offers. A missing header accepts anything. Null if no offer is acceptable. RFC 9110, 12.5.1; ignores
 * parameters other than q.
 */
export function chooseType (accept: string | undefined, offers: readonly string[]): string | null {
  if (accept === undefined || accept.trim() === '') return offers[0] ?? null
  const ranges = accept.split(',').flatMap(parseRange)
  let best: { offer: string, q: number, exact: number } | null = null
  for (const offer of offers) {
    const match = matchOf(offer, ranges)
    if (match === null || match.q === 0) continue
    if (best === null || match.q > best.q || (match.q === best.q && match.exact > best.exact)) {
      best = { offer, ...match }
    }
  }
  return best?.offer ?? null
}

function parseRange (text: string): Range[] {
  const [type = '', ...params] = text.split(';').map((part) => part.trim().toLowerCase())
  if (!/^[^/\s]+\/[^/\s]+$/.test(type)) return []
  const given = params.find((p) => /^q\s*=/.test(p))
  const q = given === undefined ? 1 : Number(given.slice(given.indexOf('=') + 1))
  return [{ type, q: q >= 0 && q <= 1 ? q : 0 }]
}

/** The most specific range that matches the offer; `exact`: 2 for equal, 1 for `audio/…`, 0 for any type. */
function matchOf (offer: string, ranges: readonly Range[]): { q: number, exact: number } | null {
  const levels = ['*/*', `${offer.split('/')[0]}/*`, offer]
  for (const exact of [2, 1, 0]) {
    const range = ranges.find((r) => r.type === levels[exact])
    if (range !== undefined) return { q: range.q, exact }
  }
  return null
}
