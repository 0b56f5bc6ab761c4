import { text } from 'node:stream/consumers'
import { isVerbError, lookedAt, type ClientRequest, type Client } from '../../kernel/cli/index.js'
import type { Caller, LocalApi, LocalRequest } from '../../kernel/index.js'

/** The client methods that the MCP server uses. */
export type Api = Pick<Client, 'json' | 'open'>

/** A client of this node's own API that acts for a caller, until the signal aborts. Throws like `Client`. */
export function ownApi (api: LocalApi, caller: Caller, outer: AbortSignal): Api {
  const question = (path: string, { method, body, accept, signal }: ClientRequest): LocalRequest => ({
    path, caller, signal: signal === undefined ? outer : AbortSignal.any([outer, signal]),
    ...method === 'POST' || body !== undefined ? { method: 'POST' } : {},
    ...body === undefined ? {} : { body: body as object }, ...accept === undefined ? {} : { accept }
  })
  return {
    async json<T> (path: string, ask: ClientRequest = {}) {
      const { status, text } = await api.ask(question(path, ask))
      return valueOf<T>(status, text)
    },
    async open (path, ask = {}) {
      const { status, headers, bytes } = await api.open(question(path, ask))
      if (status >= 200 && status < 300) return { status, headers, bytes }
      return valueOf<never>(status, await text(bytes))
    }
  }
}

function valueOf<T> (status: number, body: string): T {
  const value = lookedAt<T>(status, body)
  if (isVerbError(value)) throw value
  return value as T
}
