import t from 'tap'
import { ask, refusal } from './http.js'
import { faultsConfig, figure, startNode, until } from './kit.js'
import { AUTHORITIES, knock, routesOf, tokenWith } from './routes.js'
import type { Answer } from './http.js'

t.test('who may do what', async (t) => {
  const node = await startNode(t, { config: faultsConfig({ access: { local: [] } }) })
  const routes = await routesOf(node)

  t.test('T-A01: every route for every authority', async (t) => {
    t.ok(routes.length >= 18, `${routes.length} routes`)
    t.ok(routes.every((r) => r.authority === null ||
      (AUTHORITIES as readonly string[]).includes(r.authority)))
    const tokens = new Map<string | null, string | null>([[null, null]])
    for (const authority of AUTHORITIES) tokens.set(authority, await tokenWith(node, [authority]))
    let cells = 0
    for (const route of routes) {
      for (const [authority, token] of tokens) {
        const { status, reason } = await knock(node, route, token)
        const open = route.authority === null || route.authority === authority
        const got = status === 401 || status === 403 ? `${status} ${reason}` : 'let in'
        const wanted = open ? 'let in' : token === null ? '401 unauthenticated' : '403 missing_grant'
        t.equal(got, wanted, `${route.method} ${route.path} as ${authority ?? 'nobody'} (${status})`)
        cells++
      }
    }
    figure(t, 'T-A01', t.passing(), { routes: routes.length, cells })
  })

  t.test('tokens that are none', async (t) => {
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
