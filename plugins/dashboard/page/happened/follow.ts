import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, serverEvents } from '../api.js'
import { call, caller, origin } from '../link.js'
import type { ServerEvent } from '../api.js'

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
 * Follows a stream from the page's node while `path` is not null; passes events to `take` in small batches.
 * Stops if the node refuses the request; after a disconnect, resumes after the last event with an id.
 */
export function useFollow (path: string | null, take: (events: ServerEvent[]) => void): Following {
  const [status, setStatus] = useState<Following['status']>('connecting')
  const [error, setError] = useState<Error | null>(null)
  const [round, setRound] = useState(0)
  const taker = useRef(take)
  taker.current = take
  useEffect(() => {
    if (path === null) return
    const abort = new AbortController()
    setStatus('connecting')
    setError(null)
    void follow(path, abort.signal, {
      take: (events) => { taker.current(events) },
      is (now, why) {
        setStatus(now)
        setError(why ?? null)
      }
    })
    return () => { abort.abort() }
  }, [path, origin.value, caller.value, round])
  return { status, error, again: () => { setRound((n) => n + 1) } }
}

interface Follower {
  take: (events: ServerEvent[]) => void
  is: (status: Following['status'], error?: Error) => void
}

async function follow (path: string, signal: AbortSignal, follower: Follower): Promise<void> {
  const batch = batched(follower.take)
  let last: string | null = null
  while (!signal.aborted) {
    try {
      const headers = { accept: 'text/event-stream', ...(last === null ? {} : { 'last-event-id': last }) }
      const response = await call(path, { signal, headers })
      follower.is('live')
      for await (const event of serverEvents(response)) {
        last = event.id ?? last
        if (event.comment === null || event.data !== '') batch.add(event)
      }
    } catch (error) {
      if (signal.aborted) break
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
        follower.is('refused', error)
        return
      }
    }
    if (signal.aborted) break
    follower.is('lost')
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
  batch.drop()
}

function batched (
  take: (events: ServerEvent[]) => void
): { add: (event: ServerEvent) => void, drop: () => void } {
  let waiting: ServerEvent[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  return {
    add (event) {
      waiting.push(event)
      timer ??= setTimeout(() => {
        timer = undefined
        take(waiting.splice(0))
      }, GATHER_MS)
    },
    drop () {
      clearTimeout(timer)
      waiting = []
    }
  }
}
