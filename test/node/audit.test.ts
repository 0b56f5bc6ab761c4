import t from 'tap'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readRecord } from '../../plugins/audit/chain/record.js'
import { quiet, startCluster } from './cluster-kit.js'
import { ask, type At } from './http.js'
import { figure, folder, pick, sleep, startNode, svc, until } from './kit.js'
import type { Entry } from '../../plugins/audit/chain/entries.js'

interface Checked { name: string, ok: boolean | null, fault: { seq: number, kind: string } | null }

const verified = async (at: At): Promise<{ ok: boolean, nodes: Checked[] }> =>
  (await ask(at, '/v1/audit/verify')).json as { ok: boolean, nodes: Checked[] }

const entries = async (at: At, query = ''): Promise<Entry[]> =>
  ((await ask(at, `/v1/audit${query}`)).json as { entries: Entry[] }).entries

const newToken = async (
  at: At, label: string, authorities: string[]
): Promise<{ id: string, token: string }> => {
  const answer = await ask(at, '/v1/tokens', { body: { label, authorities } })
  const { token, record: { id } } = answer.json as { token: string, record: { id: string } }
  return { id, token }
}

/** Path of the newest file of a home's audit chain. */
const chainOf = (home: string): string => join(home, 'audit', readdirSync(join(home, 'audit'))
  .filter((name) => name.endsWith('.jsonl')).sort().at(-1)!)

t.test('an acknowledged change has its record after kill -9', async (t) => {
  const home = join(folder(t), 'home')
  const rounds = pick(2, 30)
  const acknowledged: string[] = []
  for (let round = 0; round < rounds; round++) {
    const node = await startNode(t, { home, config: quiet, ready: false })
    let going = true
    const load = Promise.all(Array.from({ length: 4 }, async (_, lane) => {
      for (let i = 0; going; i++) {
        const label = `r${round}-${lane}-${i}`
        const answer = await ask(node, '/v1/tokens', { body: { label, authorities: ['read'] } })
          .catch(() => undefined)
        if (answer?.status === 200) acknowledged.push(label)
      }
    }))
    const before = acknowledged.length
    await until('some are acknowledged', () => acknowledged.length > before + 5)
    await sleep((round * 37) % 150)
    await node.kill()
    going = false
    await load
  }
  const node = await startNode(t, { home, ready: false })
  const labels = new Set<unknown>()
  const done = new Set<unknown>()
  const { text } = await ask(node, '/v1/audit/export')
  const records = text.trim().split('\n').map((line) => readRecord(line)!)
  for (const { what, detail, seq } of records) {
    const { body, of, status } = detail as { body?: { label: string }, of?: number, status?: number }
    if (what === 'POST /v1/tokens') labels.add(body!.label)
    const asked = records[(of ?? seq) - 1]!.detail['body'] as { label: string } | undefined
    if (what === 'outcome' && status === 200) done.add(asked?.label)
  }
  const lost = acknowledged.filter((label) => !labels.has(label) || !done.has(label))
  const { ok } = await verified(node)
  figure(t, 'audit-kill', lost.length === 0 && ok,
    { rounds, acknowledged: acknowledged.length, records: records.length, lost: lost.length })
})

t.test('every node shows the changes of all nodes, and detects tampering', async (t) => {
  const cluster = await startCluster(t, { nodes: 2, config: quiet })
  const [one, two] = cluster.members as [typeof cluster.members[0], typeof cluster.members[0]]
  const writer = await newToken(one!.node, 'writer', ['read', 'cluster:write'])
  // A caller other than the operator switches the tracing of all nodes, through one node.
  const traced = { method: 'PUT', body: { enabled: true }, token: writer.token }
  t.equal((await ask(one!.node, '/v1/tracing', traced)).status, 200)
  t.equal((await ask(one!.node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] },
    token: writer.token })).status, 403)
  t.equal((await ask(one!.node, '/admin/restart?node_id=nowhere', { method: 'POST' })).status, 404)
  await newToken(two!.node, 'other', ['read'])
  const { nodeInstallId: joiner } = (await ask(two!.node, '/node/identity')).json as { nodeInstallId: string }
  const shown = await entries(two!.node)
  t.match(shown.map(({ who, what, status, reason }) => [who, what, status, reason]), [
    ['operator', 'POST /cluster/join-tokens', 200, null],
    [joiner, 'POST /join', 200, null],
    ['operator', 'POST /v1/tokens', 200, null],
    [writer.id, 'PUT /v1/tracing', 200, null],
    [writer.id, 'POST /v1/tokens', 403, 'missing_grant'],
    ['operator', 'POST /admin/restart', 404, 'node_not_found'],
    ['operator', 'POST /v1/tokens', 200, null]
  ])
  t.same((await entries(two!.node, `?who=${writer.id}`)).length, 2)
  t.match(shown[1]!.detail, { from: '127.0.0.1', by: 'operator', token: String, member: { name: 'n2' } })
  t.match(shown[2]!.detail, { noted: { id: writer.id }, body: { label: 'writer' } })
  t.notMatch(JSON.stringify(shown), writer.token)
  const events = async (): Promise<number> => {
    const { json } = await ask(two!.node, '/events?kinds=AuditRecorded&limit=100')
    return (json as { events: unknown[] }).events.length
  }
  await until('all records are in the event log of the other node', async () => await events() >= 13)
  t.match(await verified(two!.node), { ok: true, nodes: [{ ok: true }, { ok: true }] })
  const as = ['--url', two!.node.url, '--token', two!.node.token]
  t.equal((await svc(['audit', 'verify', ...as])).status, 0)
  t.match((await svc(['audit', '--who', writer.id, ...as])).stdout, /PUT \/v1\/tracing +done/)

  t.test('a record that was altered', async (t) => {
    const linked = async (): Promise<void> => {
      await until('the link', async () => (await verified(two!.node)).nodes.every(({ ok }) => ok !== null))
    }
    await one!.kill()
    t.equal((await svc(['audit', 'verify', ...as])).status, 7, 'a node that is away is not verified')
    const path = chainOf(one!.home)
    const whole = readFileSync(path, 'utf8')
    writeFileSync(path, whole.replace('"label":"writer"', '"label":"reader"'))
    await one!.start()
    await linked()
    t.match((await verified(two!.node)).nodes.find(({ name }) => name === 'n1'),
      { ok: false, fault: { seq: 5, kind: 'altered' } })
    const said = await svc(['audit', 'verify', ...as])
    t.equal(said.status, 1)
    t.match(said.stdout, /n1: Record 5 does not match its hash.*\(altered\)/)
  })
})
