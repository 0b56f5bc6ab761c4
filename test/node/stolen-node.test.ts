/** After a node's key is stolen, removing the member revokes the thief's access. */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import t from 'tap'
import { quiet, startCluster, type Member } from './cluster-kit.js'
import { pairAt } from './devices-kit.js'
import { ask } from './http.js'
import { svc, until } from './kit.js'
import { tokenWith } from './routes.js'
import { systemClock } from '../../kernel/api/clock.js'
import { openNodeKey, type NodeKey } from '../../kernel/boot/node-key.js'
import { dial } from '../../plugins/cluster/identity/tls.js'
import { CALLER_HEADER, writeCaller } from '../../kernel/http/forwarded.js'

/** A member's response to a client that uses another member's key: a status, or a closed connection. */
async function knock (key: NodeKey, { config, node }: Member): Promise<string> {
  const { port } = config()['cluster'] as { port: number }
  const caller = { id: 'x', mode: 'direct' as const, authorities: new Set(['read', 'operator', 'approve']) }
  try {
    const socket = await dial({
      key, host: '127.0.0.1', port, expect: () => true, timeoutMs: 5000, clock: systemClock
    })
    const asked = request({
      createConnection: () => socket, path: '/api/v1/approvals',
      headers: { host: 'svc-members', [CALLER_HEADER]: writeCaller(caller) }
    })
    asked.end()
    const [answer] = await once(asked, 'response') as [IncomingMessage]
    socket.destroy()
    return String(answer.statusCode)
  } catch {
    t.ok((await ask(node, '/healthz')).status === 200, 'the member itself is there')
    return 'no connection'
  }
}

t.test('a removed member: its key and its devices\' credentials are invalid everywhere', async (t) => {
  const cluster = await startCluster(t, { nodes: 3, config: quiet })
  await cluster.agreed()
  const [one, stolen, three] = cluster.members as [Member, Member, Member]
  const others = [one, three]
  const { home } = await pairAt(t, stolen.node, '--name', 'thief', '--authorities', 'read', 'operator')
  const asDevice = async ({ node }: Member, ...words: string[]): ReturnType<typeof svc> =>
    await svc(['--home', home, '--url', node.url, ...words])
  for (const member of cluster.members) t.equal((await asDevice(member, 'nodes')).status, 0, member.name)
  const made = await asDevice(one, 'token', 'create', 'left behind', '--authority', 'read', '--json')
  t.equal(made.status, 0, made.stderr)
  const { token } = JSON.parse(made.stdout) as { token: string }
  t.equal((await ask(one.node, '/node_id', { token })).status, 200, 'the device has made a token elsewhere')
  const own = await tokenWith(stolen.node, ['read', 'operator'])
  for (const { node, name } of others) {
    t.equal((await ask(node, '/node_id', { token: own })).status, 200, `${name}: a key made at that node`)
  }
  const { members } = (await ask(one.node, '/cluster/members')).json as
    { members: { installId: string, name: string }[] }
  const { installId } = members.find(({ name }) => name === stolen.name)!
  const key = await openNodeKey(stolen.home, installId)
  for (const member of others) t.equal(await knock(key, member), '200', `${member.name}: a member asks`)

  const removed = await svc(['--home', one.home, '--url', one.node.url, 'members', 'remove', installId])
  t.equal(removed.status, 0, removed.stderr)
  for (const member of others) {
    await until(`${member.name} to refuse the device`, async () =>
      (await asDevice(member, 'nodes')).status === 5)
  }
  t.equal((await ask(one.node, '/node_id', { token })).status, 401, 'the token which that device has made')
  for (const { node, name } of others) {
    t.equal((await ask(node, '/node_id', { token: own })).status, 401, `${name}: the key made at that node`)
  }
  const listed = await svc(['--home', three.home, '--url', three.node.url, 'devices', 'ls', '--json'])
  t.match(JSON.parse(listed.stdout), { devices: [{ name: 'thief', state: 'node_removed' }] })

  await stolen.kill()
  for (const member of others) {
    t.match(await knock(key, member), /^(no connection|401|403)$/, `${member.name}: the key alone`)
  }
  await one.kill()
  await one.start()
  await cluster.agreed({ on: others, live: 2 })
  for (const member of others) {
    t.match(await knock(key, member), /^(no connection|401|403)$/, `${member.name}: after a restart too`)
    t.equal((await asDevice(member, 'nodes')).status, 5, `${member.name}: and the device`)
  }
  t.equal((await ask(one.node, '/node_id', { token })).status, 401, 'and its token')
})
