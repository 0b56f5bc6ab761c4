// Requests to the node that the page is connected to.
import { serverEvents as parseEvents, type ServerEvent } from '../../../kernel/http/event-stream-parser.js'
import { ApiError } from './api-error.js'

export { ApiError }

export interface Target { origin: string, token: string | null }

export interface CallOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  body?: unknown
  /** Sent as multipart/form-data instead of a JSON body. */
  form?: FormData
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Sends a request; resolves with the response if it succeeds. @throws ApiError with the node's message */
export async function send (target: Target, path: string, options: CallOptions = {}): Promise<Response> {
  const { body, form, headers = {}, signal } = options
  const method = options.method ?? (body === undefined ? 'GET' : 'POST')
  let response: Response
  try {
    response = await fetch(target.origin + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(target.token === null ? {} : { authorization: `Bearer ${target.token}` }),
        ...headers
      },
      ...(form === undefined ? body === undefined ? {} : { body: JSON.stringify(body) } : { body: form }),
      ...(signal === undefined ? {} : { signal }),
      // A redirect could take the token somewhere else.
      credentials: 'omit', cache: 'no-store', redirect: 'error'
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new ApiError(`${target.origin} does not answer, or does not let this page read its answers.`)
  }
  if (!response.ok) throw await failureOf(response)
  return response
}

/** What a person at the page does where the API advises programs to send a token. */
const SIGN_IN = 'To sign in, open the address that `svc open` prints on the node\'s machine.'

async function failureOf (response: Response): Promise<ApiError> {
  const { status } = response
  const text = await response.text().catch(() => '')
  try {
    const { error } = JSON.parse(text) as
      { error: { message: string, reason: string, details?: Record<string, unknown> } }
    const remedy = status === 401 ? SIGN_IN : error.details?.['remedy']
    return new ApiError(error.message, {
      status, reason: error.reason, details: error.details ?? {},
      remedy: typeof remedy === 'string' ? remedy : null
    })
  } catch {
    return new ApiError(`The node answered ${status}.`, { status, reason: 'unknown' })
  }
}

/** Yields a stream's events, including comments, until the stream ends; throws if the connection breaks. */
export const serverEvents = (response: Response): AsyncGenerator<ServerEvent> =>
  parseEvents(chunksOf(response))

/** The bytes of a response as they arrive. */
export async function * chunksOf (response: Response): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = response.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield value
  }
}
