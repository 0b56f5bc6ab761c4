import { EngineError, kernelError } from '../../../kernel/index.js'
import type { SvcError } from '../../../kernel/index.js'

/** The refusal of a field; `message` goes on from its path. */
export function refused (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

/** Where a parameter stands in the task, but not in the request. */
const INNER = /(^|[\s;])params\./g

/** An engine's refusal in the words of the request: its fields have no `params.` before them. */
export function inWordsOfRequest (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'invalid_request') return error
  const { issues } = error.details as { issues?: { path: string, message: string }[] }
  const plain = (text: string): string => text.replace(INNER, '$1')
  const named = (issues ?? []).map(({ path, message }) => ({ path: plain(path), message: plain(message) }))
  const param = named[0] === undefined ? {} : { param: named[0].path }
  return kernelError('invalid_request', plain(error.message), { ...error.details, ...param, issues: named })
}
