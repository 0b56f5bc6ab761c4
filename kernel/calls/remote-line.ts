import { kernelError, SvcError } from '../api/errors.js'
import { unreachable } from './remote-errors.js'
import type { Clock } from '../api/clock.js'
import type { Cluster, MemberRequest, MemberResponse, NodeView } from '../api/services.js'

/** How often an open request looks whether the other node is still there. */
const LOOK_MS = 1000
/** Longest answer that is read whole. */
const MAX_TEXT_BYTES = 64 * 1024 * 1024

export interface LineOptions { cluster: Cluster, clock: Clock, node: NodeView }

/** What is asked of the other node; `signal` ends it. */
export type LineRequest = Omit<MemberRequest, 'signal'> & { readonly signal: AbortSignal }

/**
 * One request to another node. It ends with its signal and as soon as the cluster no longer counts the node
 * as live, which a connection cut in the middle of nowhere would not show for a long time.
 */
export class RemoteLine {
  readonly response: MemberResponse
  readonly #release: (clean: boolean) => void

  private constructor (response: MemberResponse, release: (clean: boolean) => void) {
    this.response = response
    this.#release = release
  }

  /** Resolves with the head of the answer. Throws `unreachable`, and the signal's reason when it aborts. */
  static async open (request: LineRequest, options: LineOptions): Promise<RemoteLine> {
    const { cluster, clock, node } = options
    const { signal } = request
    signal.throwIfAborted()
    const upstream = new AbortController()
    const end = (): void => { upstream.abort() }
    signal.addEventListener('abort', end)
    const stopLooking = clock.every(LOOK_MS, () => {
      if (cluster.resolve(node.installId)?.live !== true) end()
    })
    const release = (): void => { signal.removeEventListener('abort', end); stopLooking() }
    try {
      const response = await cluster.request(node.installId, { ...request, signal: upstream.signal })
      // A reader that has gone must not turn a broken connection into a crash.
      response.body.on('error', () => {})
      upstream.signal.addEventListener('abort', () => { response.body.destroy() })
      if (upstream.signal.aborted) response.body.destroy()
      return new RemoteLine(response, (clean) => {
        release()
        if (!clean) end()
      })
    } catch (error) {
      release()
      if (signal.aborted) throw signal.reason
      if (upstream.signal.aborted) throw unreachable(node, 'was lost before it answered')
      throw error instanceof SvcError ? error : unreachable(node, 'did not answer')
    }
  }

  /** Bytes as they come; reading on is what makes the other node send on. Leaves the body to `close`. */
  bytes (): AsyncIterable<Uint8Array> {
    return this.response.body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  }

  /** The whole answer. Throws what the connection failed with, `invalid_result` when it is too long. */
  async text (): Promise<string> {
    const parts: Uint8Array[] = []
    let size = 0
    for await (const part of this.bytes()) {
      size += part.byteLength
      if (size > MAX_TEXT_BYTES) {
        throw kernelError('invalid_result', `The other node's answer has over ${MAX_TEXT_BYTES} bytes.`)
      }
      parts.push(part)
    }
    return Buffer.concat(parts).toString()
  }

  /** `clean`: the answer was read to its end, so that its connection can serve again. */
  close (clean: boolean): void { this.#release(clean) }
}
