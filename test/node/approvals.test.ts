import t from 'tap'
import { request } from 'node:http'
import { quiet, startCluster } from './cluster-kit.js'
import { ask, refusal, type Answer, type At } from './http.js'
import { fixture, svc, until } from './kit.js'

interface Approval { id: string, by: string, cost: string, node: string }

t.test('a third-party capability with a cost', async (t) => {
  const config = { plugins: { ...quiet.plugins, paid: { module: fixture('paid.mjs') } } }
  const cluster = await startCluster(t, { nodes: 2, configOf: (n) => n === 1 ? config : quiet })
  const [one, two] = [cluster.members[0]!.node, cluster.members[1]!.node]
  const tokenWith = async (at: At, authorities: string[]): Promise<{ id: string, token: string }> => {
    const { json } = await ask(at, '/v1/tokens', { body: { label: authorities.join(), authorities } })
    const { token, record: { id } } = json as { token: string, record: { id: string } }
    return { id, token }
  }
  const user = await tokenWith(two, ['read', 'invoke'])
  const operator = await tokenWith(one, ['read', 'operator'])
  const approver = await tokenWith(one, ['approve'])
  const revision = (await ask(one, '/v1/capabilities')).json as { revisions: Record<string, string> }
  const body = {
    capability_id: 'paid', version: '1.0.0', descriptor_revision: revision.revisions['paid@1.0.0'],
    payload: { text: 'hello' }
  }
  // Sends the call to the node that does not serve the capability and so must forward the call.
  const call = async (): Promise<Answer> =>
    await ask(two, '/v1/capabilities/call', { body: { ...body, target_node: 'n1' }, token: user.token })
  const approvals = async (): Promise<Approval[]> =>
    ((await ask(one, '/v1/approvals', { token: approver.token })).json as { approvals: Approval[] }).approvals
  const waiting = async (): Promise<Approval> =>
    await until('a call that waits', async () => (await approvals())[0])
  const as = ['--url', one.url, '--token', approver.token]

  await t.test('is approved at another node than the one where it waits', async (t) => {
    const answer = call()
    const approval = await waiting()
    t.match(approval, { by: user.id, cost: '0.55 EUR', node: 'n2' })
    const row = new RegExp(`${approval.id} +0.55 EUR +paid@1.0.0 +${user.id}`)
    t.match((await svc(['approve', ...as])).stdout, row)
    const refused = await ask(one, `/v1/approvals/${approval.id}`,
      { body: { decision: 'approve' }, token: operator.token })
    t.match(refusal(refused), { code: 403, reason: 'missing_grant', details: { authority: 'approve' } })
    const approved = await svc(['approve', approval.id, ...as])
    t.equal(approved.status, 0, approved.stderr)
    t.match((await answer).json, { ok: true, result: { asked: 1 } })
    t.equal((await svc(['approve', approval.id, ...as])).status, 3)
  })

  await t.test('is denied', async (t) => {
    const answer = call()
    const { id } = await waiting()
    t.equal((await svc(['approve', '--deny', id, '--reason', 'too dear', ...as])).status, 0)
    t.match(refusal(await answer), { code: 403, reason: 'approval_denied', message: /too dear/ })
  })

  await t.test('ends with its client', async () => {
    const sent = request(`${two.url}/v1/capabilities/call`, {
      method: 'POST', headers: { authorization: `Bearer ${user.token}`, 'content-type': 'application/json' }
    })
    sent.on('error', () => {})
    sent.end(JSON.stringify({ ...body, target_node: 'n1' }))
    await waiting()
    sent.destroy()
    await until('nothing waits', async () => (await approvals()).length === 0)
  })

  await t.test('runs at once within a budget, which a restart does not renew', async (t) => {
    const owner = { url: two.url, token: two.token }
    const set = await svc(['approve', 'budget', user.id, '1 EUR', '--url', owner.url, '--token', owner.token])
    t.equal(set.status, 0, set.stderr)
    t.match((await call()).json, { result: { asked: 2 } })
    await cluster.members[1]!.kill()
    await cluster.members[1]!.start()
    await cluster.agreed({ live: 2 })
    const again = { url: cluster.members[1]!.node.url, token: user.token }
    const answer = ask(again, '/v1/capabilities/call', { body: { ...body, target_node: 'n1' } })
    const { id } = await waiting()
    const denial = { body: { decision: 'deny' }, token: approver.token }
    t.equal((await ask(one, `/v1/approvals/${id}`, denial)).status, 200)
    t.equal((await answer).status, 403)
  })

  t.test('is in the audit exactly once, where it was decided', async (t) => {
    const { entries } = (await ask(one, '/v1/audit')).json as { entries: { what: string }[] }
    const decided = entries.filter(({ what }) => what.startsWith('POST /v1/approvals'))
    t.match(decided, [
      { who: operator.id, status: 403, reason: 'missing_grant' },
      { who: approver.id, status: 200, detail: { noted: { of: user.id, cost: '0.55 EUR' } } },
      { who: approver.id, status: 404, reason: 'approval_not_found' },
      { who: approver.id, status: 200, detail: { body: { decision: 'deny', reason: 'too dear' } } },
      { who: approver.id, status: 200, detail: { body: { decision: 'deny' } } }
    ])
    t.equal(decided.length, 5)
  })
})
