// Hooks for data that the page loads, and for the time.
import { useEffect, useState } from 'preact/hooks'
import { ask, type AskOptions } from '../link.js'
import type { Replies } from '../../../../docs/reference/replies.js'

/** The time, updated every `ms`, for text such as "3 s ago". */
export function useNow (ms = 1000): number {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => { setNow(Date.now()) }, ms)
    return () => { clearInterval(timer) }
  }, [ms])
  return now
}

interface Loaded<T> { value: T | null, error: Error | null, again: () => void }

/**
 * Loads data, and loads it again when one of `keys` changes or the caller calls `again`. With `everyMs`, also
 * loads it that many ms after each answer.
 */
export function useLoaded<T> (
  load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[], everyMs?: number
): Loaded<T> {
  const [round, setRound] = useState(0)
  const [result, setResult] = useState<{ value: T | null, error: Error | null }>({ value: null, error: null })
  const again = (): void => { setRound((n) => n + 1) }
  useEffect(() => {
    const abort = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const show = (next: { value?: T, error: Error | null }): void => {
      if (abort.signal.aborted) return
      setResult((had) => ({ ...had, ...next }))
      if (everyMs !== undefined) timer = setTimeout(again, everyMs)
    }
    load(abort.signal).then((value) => { show({ value, error: null }) },
      (error: unknown) => { show({ error: error as Error }) })
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [...keys, round])
  return { ...result, again }
}

export const useAsk = <R extends keyof Replies>(
  route: R, keys: readonly unknown[], options: AskOptions = {}, everyMs?: number
) =>
  useLoaded(async (signal) => await ask(route, { ...options, signal }), keys, everyMs)
