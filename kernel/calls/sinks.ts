import { kernelError } from '../api/errors.js'
import { encodeEvent, encodeFrame } from './frames.js'
import type { Clock } from '../api/clock.js'
import type { StreamWriter } from '../api/plugin.js'
import type { Frame } from './frames.js'

/** Where the frames of one call go. Frames are written one after the other. */
export interface FrameSink {
  /** Resolves when the reader took it; rejects when the reader is gone or too slow. */
  write (frame: Frame): Promise<void>
  /** Ends after the terminal frame. */
  end (): Promise<void>
  /** The reader gets no clean end. */
  cut (): void
}

type Writer = Pick<StreamWriter, 'write' | 'end' | 'cut'>

/** Pieces are small so that a slow reader shows progress before the limit on taking nothing strikes. */
const PIECE_BYTES = 16 * 1024

/**
 * The writer with a limit on how long the reader may take nothing: after `stallMs` without a piece
 * accepted the connection is cut and the write rejects with `slow_consumer`.
 */
export function stallGuard (writer: Writer, clock: Clock, stallMs: number): Writer {
  const piece = (bytes: Uint8Array): Promise<void> => new Promise((resolve, reject) => {
    const stop = clock.after(stallMs, () => {
      writer.cut()
      reject(kernelError('slow_consumer', `The reader took nothing for ${stallMs / 1000} seconds.`))
    })
    writer.write(bytes).then(resolve, reject).finally(stop)
  })
  return {
    async write (data) {
      const bytes = typeof data === 'string' ? Buffer.from(data) : data
      for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
        await piece(bytes.subarray(at, at + PIECE_BYTES))
      }
    },
    end: () => writer.end(),
    cut () { writer.cut() }
  }
}

/** `application/vnd.svc.frames`. */
export function framesSink (writer: Writer): FrameSink {
  return {
    write: (frame) => writer.write(encodeFrame(frame)),
    end: () => writer.end(),
    cut () { writer.cut() }
  }
}

/** `text/event-stream`: a comment at once and after each `keepAliveMs` of silence shows dead peers. */
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

/** Only the media bytes; every end but `completed` cuts the connection. */
export function rawSink (writer: Writer): FrameSink {
  let clean = true
  return {
    async write (frame) {
      if (frame.header.kind === 'failed' || frame.header.kind === 'cancelled') clean = false
      else if (frame.media !== null && frame.media.byteLength > 0) await writer.write(frame.media)
    },
    async end () {
      if (clean) await writer.end()
      else writer.cut()
    },
    cut () { writer.cut() }
  }
}
