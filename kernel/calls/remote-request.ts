import { kernelError, SvcError } from '../api/errors.js'
import { isObject, parseJson } from '../api/schema.js'
import type { Clock } from '../api/clock.js'
import type { ErrorBody } from '../http/error-body.js'
import type { Cluster, MemberRequest, MemberResponse, NodeView } from '../api/services.js'

/** How often an open request looks whether the other node is still there. */
const LOOK_MS = 1000
/** Longest answer that is read whole. */
const MAX_TEXT_BYTES = 64 * 1024 * 1024

interface RemoteParts { cluster: Pick<Cluster, 'request' | 'resolve'>, clock: Clock, node: NodeView }

/** What is asked of the other node; `signal` ends it. */
export type Question = Omit<MemberRequest, 'signal'> & { readonly signal: AbortSignal }

/**
 * One request to another node. It ends with its signal and as soon as the cluster no longer counts the node
 * as live, which a connection cut in the middle of nowhere would not show for a long time.
 */
export class RemoteRequest {
  readonly response: MemberResponse
  readonly #release: (clean: boolean) => void

  private constructor (response: MemberResponse, release: (clean: boolean) => void) {
    this.response = response
    this.#release = release
  }

  /** Resolves with the head of the answer. Throws `unreachable`, and the signal's reason when it aborts. */
  static async open (request: Question, options: RemoteParts): Promise<RemoteRequest> {
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
      return new RemoteRequest(response, (clean) => {
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

  /** As `open`, for the status 200 only. Throws the error that another answer stands for, too. */
  static async openOk (question: Question, parts: RemoteParts): Promise<RemoteRequest> {
    const request = await RemoteRequest.open(question, parts)
    const { response } = request
    if (response.status === 200) return request
    throw refusalOf(parts.node, response, await request.whole(question.signal, parts.node))
  }

  /** Bytes as they come; reading on is what makes the other node send on. Leaves the body to `close`. */
  bytes (): AsyncIterable<Uint8Array> {
    return this.response.body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  }

  /**
   * The whole answer, after which the request is closed. Throws `invalid_result` when it is too long,
   * `unreachable` when the node broke off, and the signal's reason when it aborts.
   */
  async whole (signal: AbortSignal, node: NodeView): Promise<string> {
    const parts: Uint8Array[] = []
    let size = 0
    let done = false
    try {
      for await (const part of this.bytes()) {
        size += part.byteLength
        if (size > MAX_TEXT_BYTES) {
          throw kernelError('invalid_result', `The other node's answer has over ${MAX_TEXT_BYTES} bytes.`)
        }
        parts.push(part)
      }
      done = true
      return Buffer.concat(parts).toString()
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw error instanceof SvcError
        ? error
        : unreachable(node, 'broke off before its answer was complete')
    } finally {
      this.close(done)
    }
  }

  /** `clean`: the answer was read to its end, so that its connection can serve again. */
  close (clean: boolean): void { this.#release(clean) }
}

/** The whole answer of another node, and its headers. Throws as `openOk` and `whole` do. */
export async function askNode (
  question: Question, parts: RemoteParts
): Promise<{ text: string, headers: MemberResponse['headers'] }> {
  const request = await RemoteRequest.openOk(question, parts)
  return { text: await request.whole(question.signal, parts.node), headers: request.response.headers }
}

const REASON = /^[a-z][a-z0-9_]{0,63}$/

/** How messages call another node. */
export const nodeName = (node: NodeView): string => `node ${node.name} (${node.nodeId})`

/** The error body of another node as it was thrown there; null when the value is none. */
export function errorFrom (value: unknown, retryAfter?: string): SvcError | null {
  const { reason, message, code, retryable, details } = (value ?? {}) as Partial<ErrorBody['error']>
  if (typeof reason !== 'string' || !REASON.test(reason) || typeof message !== 'string') return null
  if (!Number.isInteger(code) || code! < 400 || code! > 599) return null
  const seconds = Number(retryAfter)
  const decl = {
    status: code!, retryable: retryable === true, message, remedy: '',
    ...(seconds > 0 ? { retryAfterSeconds: seconds } : {})
  }
  return new SvcError(reason, decl, message, isObject(details) ? details : {})
}

/** The error that an answer with another status than 200 stands for. */
function refusalOf (node: NodeView, { status, headers }: MemberResponse, text: string): SvcError {
  return errorFrom(fieldOf(parseJson(text), 'error'), headers['retry-after']) ??
    kernelError('unreachable', `${sentence(node)} answered with status ${status} and no reason.`,
      { node_id: node.nodeId, status })
}

/** The other node did not answer, or broke off before the first chunk. */
export function unreachable (node: NodeView, what: string): SvcError {
  return kernelError('unreachable', `${sentence(node)} ${what}.`, { node_id: node.nodeId })
}

/** The other node broke off in the middle of a stream. */
export function lost (node: NodeView, what: string): SvcError {
  return kernelError('instance_lost', `${sentence(node)} ${what}.`, { node_id: node.nodeId })
}

export const fieldOf = (value: unknown, key: string): unknown => isObject(value) ? value[key] : undefined

const sentence = (node: NodeView): string => nodeName(node).replace('node', 'Node')
