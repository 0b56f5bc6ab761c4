/** Lists the routes of a node, and sends requests to them that do not change the node. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { WebSocket } from 'ws'
import { ask, refusal, type Ask } from './http.js'
import { systemClock } from '../../kernel/api/clock.js'
import { readAddress } from '../../plugins/cluster/identity/addresses.js'
import { readJoinToken } from '../../plugins/cluster/identity/join-tokens.js'
import { join } from '../../plugins/cluster/identity/join.js'
import { openNodeKey } from '../../kernel/boot/node-key.js'
import { dial } from '../../plugins/cluster/identity/tls.js'
import { CALLER_HEADER, writeCaller } from '../../kernel/http/forwarded.js'
import type { TestNode } from './kit.js'

export const SESSION = '/v1/capabilities/session'
export const AUTHORITIES = ['read', 'invoke', 'cluster:write', 'operator', 'plugin:read', 'plugin:manage',
  'approve'] as const

export interface Route {
  method: string
  path: string
  authority: string | null
  /** Whether other nodes may call the route. */
  members: boolean
  body: boolean
}

/** Every route in the node's OpenAPI description, and the WebSocket route. */
export async function routesOf (node: TestNode): Promise<Route[]> {
  const { paths } = (await ask(node, '/openapi.json')).json as {
    paths: Record<string, Record<string,
      { 'x-authority'?: string | null, 'x-members'?: boolean, requestBody?: object }>> }
  const listed = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method,
    operation]) => ({
    method: method.toUpperCase(), path, authority: operation['x-authority'] as string | null,
    members: operation['x-members'] === true, body: operation.requestBody !== undefined
  })))
  return listed.some((r) => r.path === SESSION) ? listed
    : [...listed, { method: 'GET', path: SESSION, authority: 'invoke', members: false, body: false }]
}

/** A path for the route with ids that do not exist. */
const concrete = ({ path }: Route): string => path.replaceAll(/\{\w+\}/g, 'nobody')

/** A request without effect, with unknown ids and an empty body; some routes would otherwise end the node. */
export const harmless = (route: Route): { path: string, ask: Ask } => ({
  path: route.path === '/admin/restart' ? '/admin/restart?node_id=nobody' : concrete(route),
  ask: { method: route.method, ...(route.body ? { body: {} } : {}) }
})

/** Sends a request over HTTP, or a WebSocket handshake. */
export async function probe (
  node: Pick<TestNode, 'url'>, route: Route, token: string | null
): Promise<{ status: number, reason: string | undefined }> {
  const { path, ask: options } = harmless(route)
  if (route.path !== SESSION) {
    const answer = await ask(node, path, { ...options, token })
    return { status: answer.status, reason: refusal(answer)?.reason }
  }
  const ws = new WebSocket(`${node.url.replace('http', 'ws')}${SESSION}`,
    token === null ? {} : { headers: { authorization: `Bearer ${token}` } })
  return await new Promise((resolve, reject) => {
    ws.on('error', () => {})
    ws.once('open', () => { ws.terminate(); resolve({ status: 101, reason: undefined }) })
    ws.once('unexpected-response', (_request, response) => {
      let text = ''
      response.on('data', (b: Buffer) => { text += b.toString() })
      response.on('end', () => {
        ws.terminate()
        try {
          resolve({ status: response.statusCode ?? 0,
            reason: refusal({ json: JSON.parse(text) as unknown })?.reason })
        } catch { reject(new Error(`the answer to a refused handshake is not an error body: ${text}`)) }
      })
    })
  })
}

export async function tokenWith (node: TestNode, authorities: readonly string[]): Promise<string> {
  const answer = await ask(node, '/v1/tokens', { body: { label: authorities.join('+'), authorities } })
  return (answer.json as { token: string }).token
}

/**
 * Joins the node's cluster as an attacker; the resulting `knock` sends requests with its key, in the
 * name of a caller with all authorities.
 */
export async function joinAsMember (node: TestNode, home: string): Promise<{
  installId: string, knock: (route: Route) => Promise<{ status: number, reason: string | undefined }> }> {
  const made = (await ask(node, '/cluster/join-tokens', { body: { local: true } })).json as { token: string }
  const key = await openNodeKey(home, randomUUID())
  const ticket = readJoinToken(made.token, Date.now())
  const { installId, fingerprint } = key
  const self = { installId, fingerprint, name: 'stranger', addresses: [] }
  await join({ key, self, ticket, clock: systemClock })
  const caller = writeCaller({ id: 'x', mode: 'direct', authorities: new Set(AUTHORITIES) })
  return {
    installId,
    async knock (route) {
      const { path, ask: { method, body } } = harmless(route)
      const { host, port } = readAddress(ticket.seeds[0]!)!
      const socket = await dial({
        key, host, port, expect: ticket.fingerprint, timeoutMs: 5000, clock: systemClock
      })
      try {
        const req = request({
          createConnection: () => socket, method, path: `/api${path}`,
          headers: { host: 'svc-members', [CALLER_HEADER]: caller, 'content-type': 'application/json' }
        })
        req.end(body === undefined ? undefined : JSON.stringify(body))
        const [answer] = await once(req, 'response') as [IncomingMessage]
        const status = answer.statusCode ?? 0
        const json = status >= 400 ? JSON.parse(await text(answer)) as unknown : undefined
        return { status, reason: refusal({ json })?.reason }
      } finally {
        socket.destroy()
      }
    }
  }
}
