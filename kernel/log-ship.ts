import { request } from 'undici'
import { delay } from './clock.js'
import type { Clock } from './clock.js'

const MAX_QUEUED_LINES = 2000
const MAX_BATCH_LINES = 200
const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 60_000
const SEND_TIMEOUT_MS = 10_000
const LINGER_MS = 250
const METADATA_HOSTS = new Set(['169.254.169.254', '[fd00:ec2::254]', 'metadata.google.internal'])

/** Ships log lines without ever holding the node up. */
export interface Shipper {
  /** Takes a line; drops the oldest when the queue is full. */
  push (line: string): void
  readonly dropped: number
  /** Tries once more to send what is queued, then stops. */
  close (): Promise<void>
}

/** True for an address log lines may be sent to: http or https, no cloud metadata service. */
export function ingestAllowed (url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return (protocol === 'http:' || protocol === 'https:') && !METADATA_HOSTS.has(hostname)
}

/** Sends JSON lines in batches by POST; a failing receiver is retried with growing pauses. */
export function createShipper (url: string, clock: Clock): Shipper {
  const queue: string[] = []
  let dropped = 0
  let closed = false
  let busy: Promise<void> | undefined
  let sending: Promise<boolean> | undefined
  const trim = (): void => {
    const excess = Math.max(0, queue.length - MAX_QUEUED_LINES)
    queue.splice(0, excess)
    dropped += excess
  }
  const send = async (lines: readonly string[]): Promise<boolean> => {
    try {
      const { statusCode, body } = await request(url, {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: lines.join(''),
        headersTimeout: SEND_TIMEOUT_MS,
        bodyTimeout: SEND_TIMEOUT_MS,
        signal: AbortSignal.timeout(SEND_TIMEOUT_MS)
      })
      await body.dump()
      return statusCode < 300
    } catch {
      return false
    }
  }
  const drain = async (): Promise<void> => {
    let pause = FIRST_RETRY_MS
    await delay(clock, LINGER_MS)
    while (queue.length > 0 && !closed) {
      const batch = queue.splice(0, MAX_BATCH_LINES)
      sending = send(batch)
      if (await sending) {
        pause = FIRST_RETRY_MS
      } else {
        queue.unshift(...batch)
        trim()
        await delay(clock, pause)
        pause = Math.min(LAST_RETRY_MS, pause * 2)
      }
    }
  }
  const start = (): void => { busy ??= drain().finally(() => { busy = undefined }) }
  return {
    push (line) {
      if (closed) return
      queue.push(line)
      trim()
      start()
    },
    get dropped () { return dropped },
    async close () {
      closed = true
      await sending
      if (queue.length > 0) await send(queue.splice(0))
    }
  }
}
