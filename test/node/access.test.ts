import { networkInterfaces } from 'node:os'
import t from 'tap'
import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { prepareHome } from '../../kernel/boot/home.js'
import { ask, refusal, type Answer } from './http.js'
import { faultsConfig, figure, folder, startNode, until } from './kit.js'
import { AUTHORITIES, joinAsMember, probe, routesOf, tokenWith, type Route } from './routes.js'

/** Operator routes that nodes call on each other; members may use no other operator route. */
const BETWEEN_NODES = ['GET /cluster/probe', 'GET /v1/audit', 'GET /v1/audit/export',
  'GET /v1/diagnostics/node', 'GET /v1/logs', 'POST /admin/restart']
/** Routes whose caller must hold the authorities to be granted, which by default are more than `operator`. */
const GIVES = ['POST /v1/devices/pairing', 'POST /cluster/join-tokens']

type Knock = (route: Route) => Promise<{ status: number, reason: string | undefined }>

t.test('T-A01: every route for every caller', async (t) => {
  const config = faultsConfig({ api: { host: '0.0.0.0' } }, { autoplace: [] })
  const node = await startNode(t, { config })
  const routes = await routesOf(node)
  t.ok(routes.length >= 18, `${routes.length} routes`)
  t.same(routes.filter((r) => r.members && r.authority === 'operator')
    .map(({ method, path }) => `${method} ${path}`).sort(), BETWEEN_NODES)
  const outside = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')
  const member = await joinAsMember(node, prepared(t))
  const removed = await joinAsMember(node, prepared(t))
  t.equal((await ask(node, `/cluster/members/${removed.installId}`, { method: 'DELETE' })).status, 200)

  let cells = 0
  const check = async (who: string, may: readonly string[], knock: Knock, refusal: string): Promise<void> => {
    for (const route of routes) {
      const { status, reason } = await knock(route)
      const open = route.authority === null || may.includes(route.authority)
      const got = status === 401 || status === 403 ? `${status} ${reason}` : 'let in'
      const gives = open && who === 'operator' && GIVES.includes(`${route.method} ${route.path}`)
      t.equal(got, open && !gives ? 'let in' : refusal, `${route.method} ${route.path} as ${who} (${status})`)
      cells++
    }
  }
  const nobody = '401 unauthenticated'
  await check('nobody on loopback', ['read', 'invoke'], (r) => probe(node, r, null), nobody)
  if (outside !== undefined) {
    const url = `http://${outside.address}:${node.port}`
    await check('nobody from the LAN', [], (r) => probe({ url }, r, null), nobody)
  }
  for (const authority of AUTHORITIES) {
    const token = await tokenWith(node, [authority])
    await check(authority, [authority], (r) => probe(node, r, token), '403 missing_grant')
  }
  for (const route of routes) {
    const line = `${route.method} ${route.path} (${route.members})`
    const { status, reason } = await member.knock(route)
    // A route for members may still refuse this request for a reason other than `missing_grant`.
    t.equal(reason === 'missing_grant' ? 'refused' : 'let in', route.members ? 'let in' : 'refused',
      `${line} with a member's key: ${status} ${reason}`)
    await t.rejects(removed.knock(route), `${line} with a removed member's key`)
    cells += 2
  }
  figure(t, 'T-A01', t.passing(), { routes: routes.length, cells })
})

function prepared (t: Parameters<typeof folder>[0]): string {
  const home = folder(t)
  prepareHome(home)
  return home
}

t.test('credentials', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ access: { local: [] } }) })

  t.test('a web page follows the state with its token among the subprotocols', async (t) => {
    const follow = async (token: string): Promise<unknown> => {
      const doc = new Doc()
      let refused: (status: number | undefined) => void = () => {}
      const refusal = new Promise((resolve) => { refused = resolve })
      class Socket extends WebSocket {
        constructor (address: string, protocols: string[]) {
          super(address, protocols)
          this.on('unexpected-response', (_, { statusCode }) => { refused(statusCode) }).on('error', () => {})
        }
      }
      const provider = new WebsocketProvider(`${node.url.replace('http', 'ws')}/state`, 'sync', doc, {
        disableBc: true, protocols: ['svc', `svc.bearer.${token}`],
        WebSocketPolyfill: Socket as unknown as typeof globalThis.WebSocket
      })
      t.teardown(() => { provider.destroy(); doc.destroy() })
      const synced = new Promise((resolve) => { provider.once('sync', () => { resolve('synced') }) })
      const outcome = await Promise.race([synced, refusal])
      provider.disconnect()
      return outcome === 'synced' ? doc.getArray('entries').length > 0 : outcome
    }
    const may = await tokenWith(node, ['read'])
    t.equal(await follow(may), true)
    t.equal(await follow(`${may}x`), 401)
    t.equal(await follow(await tokenWith(node, ['invoke'])), 403)
  })

  t.test('invalid tokens', async (t) => {
    const good = await tokenWith(node, ['read'])
    const other = good.slice(0, -1) + (good.endsWith('0') ? '1' : '0')
    const listed = (await ask(node, '/v1/tokens')).json as { tokens: { id: string, label: string }[] }
    for (const [name, authorization] of [['a typo', `Bearer ${other}`],
      ['cut short', `Bearer ${good.slice(0, 20)}`],
      ['another scheme', `Basic ${good}`], ['no scheme', good], ['empty', 'Bearer '],
      ['twice', `Bearer ${good} ${good}`]] as const) {
      const answer = await ask(node, '/node_id', { headers: { authorization }, token: null })
      t.match([answer.status, refusal(answer)?.reason], [401, 'unauthenticated'], name)
    }
    for (const path of [`/node_id?token=${good}`, `/node_id?access_token=${good}`]) {
      t.equal((await ask(node, path, { token: null })).status, 401, 'never out of the address')
    }
    t.equal((await ask(node, '/node_id', { token: null, headers: { cookie: `token=${good}` } })).status, 401,
      'nor out of a cookie')
    t.equal((await ask(node, '/node_id', { token: good })).status, 200)
    const { id } = listed.tokens.findLast((x) => x.label === 'read')!
    t.equal((await ask(node, `/v1/tokens/${id}`, { method: 'DELETE' })).status, 200)
    t.equal((await ask(node, '/node_id', { token: good })).status, 401, 'revoked at once')
    const past = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'],
      expires: '2020-01-01T00:00:00Z' } })
    t.equal(past.status, 400)
    const made = (await ask(node, '/v1/tokens', { body: { label: 'short', authorities: ['read'],
      expires: new Date(Date.now() + 1500).toISOString() } })).json as { token: string }
    t.equal((await ask(node, '/node_id', { token: made.token })).status, 200)
    await until('the token to expire', async () => (await ask(node, '/node_id',
      { token: made.token })).status !== 200)
    const guess = async (): Promise<Answer> => await ask(node, '/node_id', { token: other })
    const late = await until('too many wrong tokens',
      async () => { const answer = await guess(); return answer.status === 429 && answer })
    t.ok(Number(late.headers['retry-after']) >= 1)
    t.equal((await ask(node, '/node_id')).status, 200, 'who has a good token is not held back')
  })
})
