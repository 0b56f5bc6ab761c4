import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, serverEvents } from '../api.js'
import { call, caller, origin } from '../link.js'
import type { ServerEvent } from '../../../../kernel/http/event-stream-parser.js'

/** An event of a stream that is followed; comments are dropped. */
type Followed = Extract<ServerEvent, { kind: 'event' }>

/** Milliseconds between the end of a stream and the next attempt. */
const AGAIN_MS = 1000
/** Milliseconds for which events are collected before they are shown together. */
const GATHER_MS = 100

export interface Following {
  status: 'connecting' | 'live' | 'lost' | 'refused'
  error: Error | null
  again: () => void
}

/**
 * Follows a stream from the page's node; passes events to `take` in small batches.
 * Stops if the node refuses the request; after a disconnect, resumes after the last event with an id.
 */
export function useFollow (path: string, take: (events: Followed[]) => void): Following {
  const [status, setStatus] = useState<Following['status']>('connecting')
  const [error, setError] = useState<Error | null>(null)
  const [round, setRound] = useState(0)
  const taker = useRef(take)
  taker.current = take
  useEffect(() => {
    const abort = new AbortController()
    setStatus('connecting')
    setError(null)
    void follow(path, abort.signal, (events) => { taker.current(events) }, (now, why) => {
      setStatus(now)
      setError(why ?? null)
    })
    return () => { abort.abort() }
  }, [path, origin.value, caller.value, round])
  return { status, error, again: () => { setRound((n) => n + 1) } }
}

async function follow (
  path: string, signal: AbortSignal, take: (events: Followed[]) => void,
  is: (status: Following['status'], error?: Error) => void
): Promise<void> {
  const waiting: Followed[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  signal.addEventListener('abort', () => { clearTimeout(timer) })
  let last: string | null = null
  for (;;) {
    try {
      const headers = { accept: 'text/event-stream', ...(last === null ? {} : { 'last-event-id': last }) }
      const response = await call(path, { signal, headers })
      is('live')
      for await (const event of serverEvents(response)) {
        if (event.kind === 'comment') continue
        last = event.id ?? last
        waiting.push(event)
        timer ??= setTimeout(() => {
          timer = undefined
          take(waiting.splice(0))
        }, GATHER_MS)
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
        is('refused', error)
        return
      }
    }
    if (signal.aborted) return
    is('lost')
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    if (signal.aborted) return
  }
}
