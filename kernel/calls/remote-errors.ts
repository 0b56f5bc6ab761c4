import { kernelError, SvcError } from '../api/errors.js'
import type { ErrorBody } from '../http/error-body.js'
import type { MemberResponse, NodeView } from '../api/services.js'

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
export function refusalOf (node: NodeView, { status, headers }: MemberResponse, text: string): SvcError {
  return errorFrom(fieldOf(parsed(text), 'error'), headers['retry-after']) ??
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

/** The value that a text stands for; undefined when it is no JSON. */
export function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field of what may be an object. */
export const fieldOf = (value: unknown, key: string): unknown => isObject(value) ? value[key] : undefined

const sentence = (node: NodeView): string => nodeName(node).replace('node', 'Node')
