// Requests to the node that the page is connected to.
import { ApiError } from './api-error.js'

export { ApiError }

export interface Target { origin: string, token: string | null }

export interface CallOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Sends a request; resolves with the response if it succeeds. @throws ApiError with the node's message */
export async function send (target: Target, path: string, options: CallOptions = {}): Promise<Response> {
  const { body, headers = {}, signal } = options
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
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
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

async function failureOf (response: Response): Promise<ApiError> {
  const { status } = response
  const text = await response.text().catch(() => '')
  try {
    const { error } = JSON.parse(text) as { error: {
      message: string, reason: string, requestId: string, details?: Record<string, unknown>
    } }
    const remedy = error.details?.['remedy']
    return new ApiError(error.message, {
      status, reason: error.reason, requestId: error.requestId, details: error.details ?? {},
      remedy: typeof remedy === 'string' ? remedy : null
    })
  } catch {
    return new ApiError(`The node answered ${status}.`, { status, reason: 'unknown' })
  }
}

export interface ServerEvent { type: string, data: string, id: string | null, comment: string | null }

/** Yields a stream's events, including comments, until the stream ends; throws if the connection breaks. */
export async function * serverEvents (response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let held = ''
  for (;;) {
    const { done, value } = await reader.read()
    held += value ?? ''
    const blocks = held.split(/\r?\n\r?\n/)
    held = done ? '' : blocks.pop()!
    for (const block of blocks) {
      const event = eventOf(block)
      if (event !== null) yield event
    }
    if (done) return
  }
}

function eventOf (block: string): ServerEvent | null {
  let type = 'message'
  let comment: string | null = null
  let id: string | null = null
  const data: string[] = []
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith(':')) comment = line.slice(1).trim()
    else if (line.startsWith('id:')) id = line.slice(3).trim()
    else if (line.startsWith('event:')) type = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
  }
  return data.length === 0 && comment === null ? null : { type, data: data.join('\n'), id, comment }
}
