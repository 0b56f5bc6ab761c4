import type { Clock, Cluster, MemberRequest, MemberResponse } from '../../../../kernel/index.js'

/** How often an open stream looks whether the other node is still there, ms. */
const LOOK_MS = 1_000

/** What streams between nodes need of the cluster. */
export interface MemberParts {
  cluster: Pick<Cluster, 'request' | 'resolve'>
  clock: Clock
}

/**
 * Ends a stream with another node with `signal`, with `end`, and once the cluster no longer counts that node
 * as live, when `gone` is called: a connection cut on the way would not show for a long time. Whoever begins
 * one calls `end`.
 */
export function whileLive (
  { cluster, clock }: Pick<MemberParts, 'clock'> & { cluster: Pick<Cluster, 'resolve'> }, installId: string,
  signal: AbortSignal, gone: () => void = () => {}
): { signal: AbortSignal, end: () => void } {
  const over = new AbortController()
  const end = (): void => {
    stopLooking()
    over.abort()
  }
  const stopLooking = clock.every(LOOK_MS, () => {
    if (cluster.resolve(installId)?.live === true) return
    end()
    gone()
  })
  return { signal: AbortSignal.any([signal, over.signal]), end }
}

/** The head of another node's answer; its body breaks off when the signal of the request aborts. */
export async function openAnswer (
  { cluster }: Pick<MemberParts, 'cluster'>, installId: string,
  request: MemberRequest & { readonly signal: AbortSignal }
): Promise<MemberResponse> {
  const { signal } = request
  const response = await cluster.request(installId, request)
  // Without a listener a connection that breaks after the reader has gone would crash the process.
  response.body.on('error', () => {})
  signal.addEventListener('abort', () => { response.body.destroy() }, { once: true })
  if (signal.aborted) response.body.destroy()
  return response
}
