/** Calls this node's own API on behalf of the caller. */
import { SvcError, type ErrorBody, type LocalRequest, type RouteRequest } from '../../../../kernel/index.js'
import { parsed } from '../../../runners/language/json.js'
import type { ApiParts } from '../types.js'

/** Sends a request to one of this node's routes; throws the route's error unchanged. */
export async function requestLocal<T> (
  { own }: Pick<ApiParts, 'own'>, { caller, signal }: Pick<RouteRequest, 'caller' | 'signal'>,
  question: Omit<LocalRequest, 'caller' | 'signal'>
): Promise<T> {
  const { status, text } = await own.ask({ ...question, caller, signal })
  const value = parsed(text)
  if (status < 400) return value as T
  const { reason, message, retryable, param, details } = (value as ErrorBody).error
  throw new SvcError(reason, { status, retryable, message, remedy: '' }, message,
    { ...details, ...param === null ? {} : { param } })
}

/** The path of a model in the store. */
export const storePath = (modelId: string, end = ''): string =>
  `/store/models/${modelId.split('/').map(encodeURIComponent).join('/')}${end}`
